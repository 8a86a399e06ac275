"""The doctor's check of the class behind Spark's data source `kafka`."""

import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.doctor_checks import states_and_text
from tidegate.doctor import pipeline_checks
from tidegate.doctor.provider import check_provider, providers
from tidegate.launch import jars
from tidegate.launch.spark_connection import LOCAL, SparkConnection
from tidegate.pipelines.spec import Spec, parse_spec

CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
SERVICES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


def connector() -> Path:
    return next(
        jar for jar in jars.lock_paths("spark-kafka") if jar.name.startswith("spark-sql-kafka")
    )


def jar(path: Path, services: str, **classes: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as content:
        content.writestr(SERVICES, services)
        for name, body in classes.items():
            content.writestr(f"{name}.class", body)
    return path


def found(conf: Mapping[str, str] = {}) -> tuple[list[tuple[str, str]], str]:
    return states_and_text(check_provider(conf))


def test_the_class_and_its_jar() -> None:
    states, text = found()
    assert states == [("provider", "ok")]
    assert text.startswith(f"`kafka` is {CLASS} in {connector()} ")


def test_no_jar_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector is missing, or damaged: the command that fetches it again is named."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    states, text = found()
    assert (states, "tidegate jars" in text) == ([("provider", "failure")], True)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / connector_name()).write_bytes(b"PK")
    assert found()[0] == [("provider", "failure")]


def test_the_cache_of_another_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own connector is looked for, and the command that fetches it is named."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars/spark-core_2.12-3.5.7.jar").touch()
    own = replace(LOCAL, home=home)
    states, text = states_and_text(check_provider({}, own))
    assert states == [("provider", "failure")]
    assert f"run `tidegate jars --spark-home {home}`" in text
    name = jars.read_lock("spark-kafka-3.5")[2].file
    (tmp_path / "cache/jars").mkdir(parents=True)
    jar(tmp_path / "cache/jars" / name, "Mine", Mine=b"\x01\x00\x05kafka")
    states, text = states_and_text(check_provider({}, own))
    assert states == [("provider", "ok")]
    assert text.startswith(f"`kafka` is Mine in {tmp_path}/cache/jars/{name} ")


def connector_name() -> str:
    return next(
        each.file
        for each in jars.read_lock("spark-kafka")
        if each.artifact.startswith("spark-sql-kaf")
    )


def test_two_jars_with_it(tmp_path: Path) -> None:
    """By a path, a URL and a pattern; of two, both are named."""
    mine = tmp_path / "my connector.jar"
    shutil.copy(connector(), mine)
    url = mine.as_uri()
    for given in (str(mine), f"s3a://bucket/x.jar, {url}", f"local:{mine}", str(tmp_path / "*")):
        states, text = found({"spark.jars": given})
        assert states == [("provider", "failure")], given
        assert text.startswith("2 jars provide Spark's data source `kafka`: ")
        assert f"{CLASS} in {connector()}; {CLASS} in {mine}" in text


def test_another_class_of_that_name(tmp_path: Path) -> None:
    """The short name is what counts, not the class; other data sources are none of it."""
    body = b"\xca\xfe\xba\xbe\x01\x00\x05%s\x01\x00\x09shortName"
    services = "# ours\nMine # kafka\nOther\nMissing\n\n"
    mine = jar(tmp_path / "a.jar", services, Mine=body % b"kafka", Other=body % b"kafkb")
    assert providers(mine) == ["Mine"]
    assert providers(tmp_path / "none.jar") == []
    states, text = found({"spark.jars": str(mine)})
    assert (states, f"Mine in {mine}" in text) == ([("provider", "failure")], True)


def test_jars_that_are_not_there(tmp_path: Path) -> None:
    states, text = found({"spark.jars": f"{tmp_path}/no.jar,https://host/x.jar"})
    assert states == [("provider", "failure"), ("provider", "ok")]
    assert f"not there: {tmp_path}/no.jar →" in text


def test_packages_with_the_connector() -> None:
    conf = {"spark.jars.packages": "a:b:1,org.apache.spark:spark-sql-kafka-0-10_2.13:3.5.1"}
    states, text = found(conf)
    assert states == [("provider", "failure"), ("provider", "ok")]
    assert "take it out of spark.jars.packages" in text


def test_a_pipelines_jars_are_checked(spec: Spec, tmp_path: Path) -> None:
    """With those of its Spark connection; what others have is the machine's."""

    def text(of: Spec, spark: SparkConnection = LOCAL) -> str:
        nothing: Any = None
        (check,) = (
            each
            for each in pipeline_checks.checks(of, nothing, lambda: spark)
            if each.name == "provider"
        )
        return states_and_text(check.ask())[1]

    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
    own = parse_spec({**form, "spark": {"conf": {"spark.jars": "/a.jar"}}})
    assert text(spec) == ""
    assert "not there: /a.jar" in text(own)
    assert "not there: /b.jar" in text(spec, replace(LOCAL, conf={"spark.jars": "/b.jar"}))
    mine = tmp_path / Path(connector()).name
    shutil.copy(connector(), mine)
    assert f"`kafka` is {CLASS} in {mine}" in text(spec, replace(LOCAL, jars=str(tmp_path)))
    assert "no jar provides" in text(spec, replace(LOCAL, jars="image"))
    assert "in what Spark fetches" in text(spec, replace(LOCAL, jars="packages"))
