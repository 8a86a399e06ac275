"""Answers of an application in a directory that only Hadoop's file systems know."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.spark.answers import HadoopAnswers, LocalAnswers, answers_in_lake


def test_answers_are_read_written_and_taken(spark: SparkSession, tmp_path: Path) -> None:
    jvm = spark.sparkContext._jvm
    answers = answers_in_lake(tmp_path.as_uri(), jvm)
    assert isinstance(answers, HadoopAnswers)
    assert answers.read("sending") is None
    answers.create("sending")
    answers.create("done.json", '{"rows": "ä"}')
    assert (answers.read("sending"), answers.read("done.json")) == ("", '{"rows": "ä"}')
    (tmp_path / "job").write_bytes(b"\x00\xff\x80")
    assert answers.take("job") == b"\x00\xff\x80"
    assert not (tmp_path / "job").exists()
    with pytest.raises(FileNotFoundError):
        answers.take("job")
    assert isinstance(answers_in_lake(str(tmp_path), jvm), LocalAnswers)
