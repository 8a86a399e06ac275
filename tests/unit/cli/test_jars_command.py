"""`tidegate jars`: which locks it fetches, and what it prints."""

import json
from pathlib import Path

import pytest

from tidegate.cli import main
from tidegate.launch import jars, job_zip, spark_submit


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the locks that are fetched; the archive cannot be made."""
    names: list[str] = []

    def ensure(name: str, spark: Path | None = None) -> list[Path]:
        names.append(f"{name} {spark}" if spark else name)
        return [tmp_path / "jars" / f"{name}.jar", tmp_path / "jars" / "shared.jar"]

    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jars, "ensure_jars", ensure)
    monkeypatch.setattr(spark_submit, "ensure_archive", lambda log: log("no archive"))
    return names


def tidegate(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr("sys.argv", ["tidegate", *args])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(ended.value.code or 0)


def test_the_jars_of_spark(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    """Without the archive a run only starts more slowly: that is no failure."""
    assert tidegate(monkeypatch, "jars") == 0
    assert fetched == ["spark-kafka", "spark-s3", "spark-gcs", "spark-azure"]
    out, err = capsys.readouterr()
    assert (out, err) == (f"5 jars in {tmp_path}/jars\n", "no archive\n")


def test_the_zip_for_a_driver_without_tidegate(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A task may be of a user who may not write into the cache."""
    assert tidegate(monkeypatch, "jars", "--no-archive") == 0
    (built,) = (tmp_path / "zips").iterdir()
    assert job_zip.build_zip() == built


def test_a_cache_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    cache = tmp_path / "file/cache"
    monkeypatch.setenv("TIDEGATE_CACHE", str(cache))
    assert tidegate(monkeypatch, "jars") == 2
    assert capsys.readouterr().err == (
        f"ConfigurationError: the cache {cache} cannot be used: Not a directory; correct it, or "
        "set TIDEGATE_CACHE to another directory\n"
    )


def test_without_the_archive(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tidegate(monkeypatch, "jars", "--no-archive", "--json") == 0
    assert fetched == ["spark-kafka", "spark-s3", "spark-gcs", "spark-azure"]
    out, err = capsys.readouterr()
    assert (json.loads(out)["archive"], err) == (None, "")


@pytest.mark.parametrize(
    ("version", "locks"),
    [
        ("3.5.1", ["spark-kafka-3.5"]),
        ("4.0.9", ["spark-kafka", "spark-s3", "spark-gcs", "spark-azure"]),
    ],
)
def test_those_of_another_spark(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, version: str, locks: list[str],
) -> None:  # fmt: skip
    """By the Ivy of that Spark, without an archive, which is of the installed one."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / f"jars/spark-core_2.12-{version}.jar").touch()
    assert tidegate(monkeypatch, "jars", "--spark-home", str(home)) == 0
    assert fetched == [f"{name} {home}" for name in locks]
    assert capsys.readouterr().err == ""


def test_with_those_of_the_broker(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(spark_submit, "ensure_archive", lambda _: tmp_path / "cds/a.jsa")
    assert tidegate(monkeypatch, "jars", "--local", "--json") == 0
    assert sorted(fetched) == jars.lock_names()
    assert json.loads(capsys.readouterr().out) == {
        "format": 1,
        "directory": f"{tmp_path}/jars",
        "jars": [f"{name}.jar" for name in ("kafka-broker", "shared", *sorted(jars.OF_SPARK))],
        "archive": f"{tmp_path}/cds/a.jsa",
    }
