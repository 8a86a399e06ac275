"""The jar with Tidegate's own class, beside its source."""

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

from tidegate.launch import spark_jars
from tidegate.spark.producer_settings import SOURCE_TIMESTAMPS
from tools import own_jar

SHA256 = "e0d279bc9df70bddaf9e71101e5c68ee3ba0e0adbd22983065d134207c0112e9"


def class_in(jar: Path) -> bytes:
    with zipfile.ZipFile(jar) as opened:
        (name,) = opened.namelist()
        assert name == f"{SOURCE_TIMESTAMPS.replace('.', '/')}.class"
        return opened.read(name)


def test_the_jar_is_what_its_source_makes(tmp_path: Path) -> None:
    """`make jars-own` makes it anew, equal for each JDK."""
    committed = spark_jars.TIMESTAMPS
    assert hashlib.sha256(committed.read_bytes()).hexdigest() == SHA256
    assert class_in(committed)
    if not shutil.which("javac"):
        pytest.skip("no compiler of Java")
    own_jar.build_jar(tmp_path / "own.jar")
    assert class_in(tmp_path / "own.jar") == class_in(committed)
