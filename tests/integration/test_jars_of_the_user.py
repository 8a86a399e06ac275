"""Jars of a pipeline's `spark.conf`, read back: a class of them runs in driver and executor."""

import json
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import jar_repository, oracle_client, spark_cluster, topic_records
from support.cli_user import Terminal
from support.spark_cluster import Cluster
from tidegate_local.kafka import Broker

PLUGIN = """
import java.nio.file.*;
import java.util.*;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.*;

public class WhereFrom implements SparkPlugin {
  static void say(String role) {
    try {
      String jar = WhereFrom.class.getProtectionDomain().getCodeSource().getLocation().getPath();
      String text = ProcessHandle.current().pid() + " " + jar;
      Files.writeString(Path.of("%s", role), text);
    } catch (Exception error) { throw new RuntimeException(error); }
  }
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      public Map<String, String> init(SparkContext context, PluginContext plugins) {
        say("driver");
        return Map.of();
      }
    };
  }
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      public void init(PluginContext context, Map<String, String> conf) { say("executor"); }
    };
  }
}
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster.running(tmp_path_factory.mktemp("spark")) as running:
        yield running


def jar(directory: Path, says: Path) -> Path:
    """Compile a Spark plugin that writes, in `says`, its process and the jar it was loaded from."""
    source = directory / "WhereFrom.java"
    source.write_text(PLUGIN % says)
    class_path = f"{spark_cluster.spark_home()}/jars/*"
    subprocess.run(
        ["javac", "-cp", class_path, "-proc:none", "-d", directory / "classes", source], check=True
    )
    path = directory / "where-from.jar"
    with zipfile.ZipFile(path, "w") as archive:
        for each in (directory / "classes").iterdir():
            archive.write(each, each.name)
    return path


def repository(directory: Path, file: Path) -> dict[str, str]:
    """Return the settings by which Spark fetches a jar from a repository of files."""
    coordinates = "org.example:where-from:1.0"
    asked = jar_repository.settings(directory, {coordinates: file})
    return {"spark.jars.packages": coordinates, **asked}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["jars", "packages", "class paths"])
def test_a_class_of_them_runs_in_driver_and_executor(
    by: str, spark: Cluster, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """`spark.jars`; `spark.jars.packages`, `.repositories`, `.ivySettings`, `.ivy`; class paths."""
    says = tmp_path / "says"
    says.mkdir()
    file = jar(tmp_path, says)
    given = {
        "jars": {"spark.jars": str(file)},
        "packages": repository(tmp_path, file),
        "class paths": {
            "spark.driver.extraClassPath": str(file),
            "spark.executor.extraClassPath": str(file),
        },
    }[by]
    terminal = Terminal(
        tmp_path, broker.bootstrap,
        environ={
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": spark.master}),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )  # fmt: skip
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 400, partitions=2)
    terminal.pipeline("own-jars", [name], spark={"conf": {"spark.plugins": "WhereFrom", **given}})
    assert terminal.json("run", "own-jars")["rows"] == 400
    oracle_client.agree(broker.bootstrap, terminal.lake, "own-jars", [name])
    (driver, of_driver), (executor, of_executor) = (
        (says / role).read_text().split() for role in ("driver", "executor")
    )
    assert driver != executor
    for source in (of_driver, of_executor):
        assert re.fullmatch(r"(org.example_)?where-from(-1.0)?.jar", Path(source).name)
