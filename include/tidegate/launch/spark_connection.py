"""A Spark connection: its master, and what its extra says, read and checked once.

The keys that Airflow's Spark provider has keep its names. What only other operators of the provider
use is ignored.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.core.nearest import did_you_mean
from tidegate.core.printable import CONTROL, printable_name
from tidegate.errors import ConfigurationError
from tidegate.launch import spark_home, spark_jars
from tidegate.launch.master_kinds import EXAMPLES, KINDS, MasterKind, master_kind
from tidegate.pipelines.value_types import as_text
from tidegate.settings import spark_lines
from tidegate.settings.setting import Place
from tidegate.settings.table import judge_settings

_OLDEST_PYTHON = (3, 11)
_EXAMPLES = {
    "deploy-mode": "client",
    "queue": "root.default",
    "namespace": "spark-jobs",
    "spark-home": "/opt/spark",
    "spark-binary": "/opt/spark/bin/spark-submit",
    "python": "/usr/bin/python3.12",
    "jars": "/opt/spark-jars",
    "conf": '{"spark.cores.max": "4"}',
}
_IGNORED = {"rest-scheme", "rest-port", *(name for kind in KINDS for name in kind.unused)}
_REFUSED = dict.fromkeys(
    ("keytab", "principal"),
    "write spark.kerberos.keytab, a path, and spark.kerberos.principal in conf",
)
_HAS_A_KEY = {
    **{kind.setting: kind.key for kind in KINDS if kind.key},
    "spark.pyspark.python": "python",
    "spark.pyspark.driver.python": "python",
}
_KINDS = {
    bool: "true or false", int: "a number", float: "a number with a fraction or an exponent",
    str: "a text", list: "a list",
}  # fmt: skip
_CONTROL = "holds a control character, or is not Unicode"


@dataclass(frozen=True)
class SparkConnection:
    """Where and with what applications run.

    `conf` are settings, below those of a pipeline. `home` is a SPARK_HOME other than the installed
    PySpark; `python` the interpreter of driver and executors, if not this one; `jars` where the
    jars besides Spark's own are: `cache`, `packages`, `image` or a directory.
    """

    id: str
    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    python: str | None = None
    jars: str = spark_jars.CACHE
    notices: tuple[str, ...] = ()
    deploy_mode: str = "client"

    @property
    def is_cluster(self) -> bool:
        """Whether the driver runs on a machine of the cluster."""
        return self.deploy_mode == "cluster"

    @property
    def line(self) -> str:
        """The minor version of its Spark: "4.0"."""
        return spark_lines.line_of(spark_home.spark_version(self.home or spark_home.home())[1])


LOCAL = SparkConnection("spark_default", "local[*]")


def parse_connection(connection: str, master: str, extra: Any, place: Place) -> SparkConnection:
    """Return a connection by its id, master and extra. `place` is that of its pipeline's settings.

    Raises ConfigurationError with all complaints. Paths and programs are those of this machine, but
    in cluster mode `python` is that of the nodes.
    """
    if not isinstance(extra, Mapping):
        raise ConfigurationError(
            f"Spark connection {connection!r}: its extra is not a mapping of settings"
        )
    # An empty field of a form is a setting that is not given.
    given = {str(key): value for key, value in extra.items() if value not in (None, "", {})}
    wrong, notices = _names(given)
    kind = master_kind(master)
    if not kind:
        wrong.append(f"host: {master!r} is no master of Spark; write {EXAMPLES}")
    texts: dict[str, str] = {}
    for key in (_EXAMPLES.keys() - {"conf"}) & given.keys():
        if isinstance(given[key], str) and CONTROL.search(given[key]):
            wrong.append(f"{key}: {_CONTROL}")
        elif isinstance(given[key], str):
            texts[key] = given[key].strip()
        else:
            wrong.append(f"{key}: {_kind(given[key])}; write a text, as {_EXAMPLES[key]}")
    home = _home(texts, wrong)
    source = texts.get("jars", spark_jars.CACHE)
    mode = texts.get("deploy-mode", "client")
    if source == spark_jars.IMAGE and mode == "cluster" and kind and kind.in_pods:
        source = spark_jars.OF_PODS
    wrong += [*_deploy_mode(mode, kind), *_jars(source, home, wrong)]
    if mode == "client":
        wrong += _python(texts)
    conf = _conf(given.get("conf", {}), place, wrong, notices)
    for each in KINDS:
        if each.key in texts and each is kind:
            conf[each.setting] = texts[each.key]
        elif each.key in texts:
            notices.append(
                f"{each.key}: it has no effect: it is for masters that begin with {each.name}"
            )
    if source == spark_jars.PACKAGES:
        notices.append(
            "jars: Spark fetches them when an application starts: each run needs the network, and "
            "no digest is compared"
        )
    if wrong:
        listed = "\n".join(f"  - {each}" for each in sorted(wrong))
        raise ConfigurationError(f"Spark connection {connection!r}:\n{listed}")
    told = tuple(f"Spark connection {connection!r}: {each}" for each in notices)
    return SparkConnection(connection, master, conf, home, texts.get("python"), source, told, mode)


def _names(given: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the complaints and the notices about keys that are not used."""
    wrong, notices = [], []
    for name in given.keys() - _EXAMPLES.keys() - _IGNORED:
        if use := _REFUSED.get(name):
            wrong.append(f"{name}: refused: Airflow's provider would keep it in a file; {use}")
        elif near := did_you_mean(name.lower().replace("_", "-"), _EXAMPLES):
            wrong.append(f"{name}: no key of a Spark connection{near}")
        else:
            notices.append(f"{name}: it is not used")
    return wrong, sorted(notices)


def _deploy_mode(mode: str, kind: MasterKind | None) -> list[str]:
    if mode not in ("client", "cluster"):
        masters = " or ".join(each.name for each in KINDS if not each.client_alone)
        return [
            f"deploy-mode: a text that is no mode of Spark; write client, or cluster on {masters}"
        ]
    why = kind.client_alone if kind else ""
    return [f"deploy-mode: cluster: {why}; write client"] if mode == "cluster" and why else []


def _home(texts: Mapping[str, str], wrong: list[str]) -> Path | None:
    """Return the SPARK_HOME that is given. Complaints are added to `wrong`."""
    given = {"spark-home": Path(texts["spark-home"])} if "spark-home" in texts else {}
    if (binary := texts.get("spark-binary", "spark-submit")) != "spark-submit":
        path = Path(binary)
        if path.parts[-2:] == ("bin", "spark-submit"):
            given["spark-binary"] = path.parents[1]
        else:
            wrong.append(f"spark-binary: no path of …/bin/spark-submit; {_example('spark-binary')}")
    if len(set(given.values())) > 1:
        wrong.append("spark-binary: it is not that of spark-home; leave one of them out")
    for key, home in given.items():
        if not (home.is_absolute() and spark_home.is_spark(home)):
            wrong.append(
                f"{key}: there is no Spark, with bin/spark-submit and jars/spark-core_*.jar, on "
                f"this machine; {_example(key)}"
            )
            return None
    return next(iter(given.values()), None)


def _python(texts: Mapping[str, str]) -> list[str]:
    if "python" not in texts:
        return []
    if not (program := shutil.which(texts["python"])):
        return [f"python: no program on this machine, where the driver runs; {_example('python')}"]
    if (found := _version(program)) < _OLDEST_PYTHON:
        number = ".".join(map(str, found)) or "no Python"
        return [f"python: {program} is {number}; Tidegate's jobs need Python 3.11 or later"]
    return []


@cache
def _version(program: str) -> tuple[int, ...]:
    """Return the version of a Python as numbers. Empty if it does not say."""
    code = "import sys; print(*sys.version_info[:2])"
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        asked = [program, "-I", "-S", "-c", code]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
        return tuple(map(int, said.split()))
    return ()


def _jars(source: str, home: Path | None, wrong: list[str]) -> list[str]:
    known = (spark_jars.CACHE, spark_jars.PACKAGES, spark_jars.IMAGE, spark_jars.OF_PODS)
    if source in known or (Path(source).is_absolute() and Path(source).is_dir()):
        is_known = not any(each.startswith(("spark-home", "spark-binary")) for each in wrong)
        complaint = spark_jars.connector_complaint(source, home) if is_known else None
        return [complaint] if complaint else []
    return [
        "jars: neither a directory on this machine nor one of the words; write cache, packages, "
        f"image, or an absolute path, as {_EXAMPLES['jars']}"
    ]


def _conf(conf: Any, place: Place, wrong: list[str], notices: list[str]) -> dict[str, str]:
    """Return the settings by the table. Complaints and notices are added to the lists."""
    if not isinstance(conf, Mapping):
        wrong.append(f"conf: {_kind(conf)}; write a mapping, as {_EXAMPLES['conf']}")
        return {}
    texts = {}
    for name, value in conf.items():
        if key := _HAS_A_KEY.get(name):
            wrong.append(f"conf: {name}: refused: the connection has a key for it; write `{key}`")
        elif CONTROL.search(name) or (isinstance(value, str) and CONTROL.search(value)):
            wrong.append(f"conf: {printable_name(name)}: {_CONTROL}")
        elif isinstance(value, str | int):
            texts[name] = as_text(value)
        elif isinstance(value, float):  # 4.0 is no number of cores for Spark, 3.10 is 3.1
            wrong.append(f"conf: {name}: {_kind(value)}; write a whole number, or the text of it")
        else:
            wrong.append(f"conf: {name}: {_kind(value)}; write a text, a number, true or false")
    verdict = judge_settings(place, texts)
    wrong += [f"conf: {each}" for each in verdict.complaints]
    notices += [f"conf: {each}" for each in verdict.notices]
    return dict(verdict.settings)


def _example(key: str) -> str:
    return f"write a path, as {_EXAMPLES[key]}"


def _kind(value: Any) -> str:
    """Return what a value is, without quoting it: it may be secret."""
    return _KINDS.get(type(value), "null" if value is None else "a mapping")
