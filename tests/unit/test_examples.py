"""docs/examples: what can be checked of installations that are not on this machine."""

import ast
import json
import operator
import re
import shlex
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from support.doc_pages import DOCS, PROJECT, fenced, page
from tidegate import connections
from tools.command_reference import whole

EXAMPLES = PROJECT / "docs/examples"
KINDS = {"helm": "Helm chart", "mwaa": "Amazon MWAA", "astro": "Astro"}
CHANGELOG = (PROJECT / "CHANGELOG.md").read_text()
NEXT = re.findall(r"^## \[([0-9.]+)\]", CHANGELOG, re.MULTILINE)[0]
WHEEL = f"tidegate-{NEXT}-py3-none-any.whl"

TEXT = {"type": "string"}
NAMED = {"type": "object", "properties": {"name": TEXT, "value": TEXT},
         "required": ["name", "value"], "additionalProperties": False}  # fmt: skip
SECRET = {
    "type": "object",
    "properties": {"envName": TEXT, "secretName": TEXT, "secretKey": TEXT},
    "required": ["envName", "secretName"],
    "additionalProperties": False,
}
IMAGE = {"type": "object", "properties": {"repository": TEXT, "tag": TEXT},
         "additionalProperties": False}  # fmt: skip
CHART = {
    "type": "object",
    "properties": {
        "airflowVersion": TEXT,
        "executor": TEXT,
        "images": {"type": "object", "properties": {"airflow": IMAGE},
                   "additionalProperties": False},
        "env": {"type": "array", "items": NAMED},
        "secret": {"type": "array", "items": SECRET},
        "scheduler": {"type": "object", "properties": {"resources": {"type": "object"}},
                      "additionalProperties": False},
    },
    "additionalProperties": False,
}  # fmt: skip
"""The keys that the example uses, as the chart's values.schema.json has them; no others."""


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    form: dict[str, Any] = yaml.safe_load((EXAMPLES / "helm/values.yaml").read_text())
    return form


def environment(values: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in values["env"]}


def test_the_values_have_the_form_of_the_chart(values: dict[str, Any]) -> None:
    """Values of variables are texts: Kubernetes refuses a number or a truth value there."""
    jsonschema.validate(values, CHART)


def test_the_values_name_what_exists(values: dict[str, Any]) -> None:
    """Airflow's settings, Tidegate's variables; secrets only by reference; one Airflow version."""
    given = environment(values)
    spec = find_spec("airflow")
    assert spec is not None
    assert spec.submodule_search_locations
    templates = Path(spec.submodule_search_locations[0]) / "config_templates"
    known = yaml.safe_load((templates / "config.yml").read_text())
    documented = page("docs/configuration.md")
    for name in [*given, *(each["envName"] for each in values["secret"])]:
        if name.startswith("AIRFLOW__"):
            _, section, option = name.split("__")
            assert option.lower() in known[section.lower()]["options"], name
        elif not name.startswith("AIRFLOW_CONN_"):
            assert f"`{name}`" in documented, name
        assert name not in given or not re.search("SECRET|_KEY|PASSWORD|TOKEN", name), name
    found = connections.read_environment_connection("spark_default", given)
    assert found is not None
    assert connections.parse_spark_connection("spark_default", found).master.startswith("spark://")
    image = f"FROM apache/airflow:{values['airflowVersion']}-python3.12"
    assert image in (EXAMPLES / "helm/Dockerfile").read_text()
    assert values["images"]["airflow"]["tag"] == f"{values['airflowVersion']}-{NEXT}"


def test_the_values_read_the_secret_that_the_page_makes(values: dict[str, Any]) -> None:
    made = re.findall(r"--from-(?:file|literal)=([a-z-]+)=", page("docs/how-to/platforms.md"))
    assert sorted(made) == sorted(each["secretKey"] for each in values["secret"])
    assert {each["secretName"] for each in values["secret"]} == {"tidegate"}
    assert "secret generic tidegate " in page("docs/how-to/platforms.md")


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_of_an_example_has_its_place_in_the_page(kind: str) -> None:
    _, _, rest = page("docs/how-to/platforms.md").partition(f"\n## {KINDS[kind]}\n")
    text = rest.partition("\n## ")[0]
    for file in (EXAMPLES / kind).iterdir():
        assert f"`{file.name}`" in text, file.name
    assert f"`{WHEEL}`" in text
    assert "not tried" in page("docs/how-to/platforms.md")


@pytest.mark.parametrize("kind", KINDS)
def test_the_dags_are_one_line(kind: str) -> None:
    """Airflow reads a file only if its text has both words."""
    text = (EXAMPLES / kind / "tidegate_dags.py").read_text()
    statements = [ast.unparse(each) for each in ast.parse(text).body[1:]]
    assert statements == ["from tidegate.airflow import dags", "globals().update(dags())"]
    assert {"dag", "airflow"} <= set(re.findall("dag|airflow", text.lower()))


@pytest.mark.parametrize("kind", ["mwaa", "astro"])
def test_requirements_have_the_form_of_pip(kind: str) -> None:
    """A name, extras and bounds; they admit what is locked, of Tidegate the next version."""
    lock = (PROJECT / "requirements.txt").read_text()
    pins = {**dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock, re.MULTILINE)), "tidegate": NEXT}
    lines = (EXAMPLES / kind / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and line[0] not in "#-"]
    assert wanted
    for line in wanted:
        form = re.fullmatch(r"([a-z-]+)(?:\[[a-z0-9,]+\])?((?:(?:==|>=|<)[\d.]+,?)+)", line)
        assert form, line
        pin = numbers(pins[form[1]])
        for relation, bound in re.findall(r"(==|>=|<)([\d.]+)", form[2]):
            compare = {"==": operator.eq, ">=": operator.ge, "<": operator.lt}[relation]
            assert compare(pin, numbers(bound)), line


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize("kind", ["helm", "astro"])
def test_images_have_a_pinned_base_and_the_wheel(kind: str) -> None:
    text = (EXAMPLES / kind / "Dockerfile").read_text()
    (base,) = re.findall(r"^FROM (\S+)$", text, re.MULTILINE)
    assert re.search(r":\d+\.\d+[.-]\d+", base)
    assert f"{WHEEL}[airflow,spark,s3]" in text
    assert text.index(WHEEL) < text.index("RUN tidegate jars\n")


def test_the_wheel_is_installed_as_the_page_says() -> None:
    """The line of docs/how-to/install.md: the next version, and constraints that are there."""
    install = page("docs/how-to/install.md")
    pip, jars = fenced(install, "sh")[0].splitlines()
    assert shlex.split(pip) == [
        "pip", "install", f"dist/{WHEEL}[airflow,spark,s3]", "--constraint",
        "docs/constraints/airflow-3.3.txt",
    ]  # fmt: skip
    assert jars == "tidegate jars"
    linked = re.findall(r"\]\(\.\./constraints/(\S+?)\)", install)
    assert sorted(linked) == sorted(
        path.name for path in (PROJECT / "docs/constraints").glob("*.txt")
    )


def test_extras_that_docs_examples_and_errors_name_exist() -> None:
    """`tidegate[…]`, with or without the rest of a wheel's name; the page has a word on each."""
    form = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    files = [*DOCS, *EXAMPLES.rglob("*.*"), *EXAMPLES.rglob("Dockerfile"),
             PROJECT / "Dockerfile", *PROJECT.glob("include/**/*.py")]  # fmt: skip
    named = {
        extra: file
        for file in files
        for extras in re.findall(r"\btidegate(?:-[\w.-]*)?\[([a-z0-9, -]+)\]", file.read_text())
        for extra in extras.split(",")
    }
    assert {"airflow", "s3", "spark", "local", "duckdb"} <= named.keys()
    assert {extra: file for extra, file in named.items() if extra not in form} == {}
    (row,) = re.findall(r"^\| packages \| (.*)$", page("docs/how-to/install.md"), re.MULTILINE)
    assert form.keys() <= set(re.findall(r"`([a-z0-9-]+)`", row))


@pytest.mark.parametrize(
    "name", [*(f"docs/examples/{kind}/Dockerfile" for kind in ("helm", "astro")),
             "docs/how-to/platforms.md", "Dockerfile"],
)  # fmt: skip
def test_the_command_that_fetches_jars_is_accepted(name: str) -> None:
    """In an image, or with a variable before it."""
    (words,) = re.findall(r"(?:RUN |&& |TIDEGATE_CACHE=\S+ )tidegate ([^\n`\\&]*)", page(name))
    command = whole()
    command = command.commands["jars"]
    given = words.split()
    assert given.pop(0) == "jars"
    command.make_context("jars", given)  # a usage error otherwise


def test_the_startup_script_is_one_of_a_shell() -> None:
    """Its variables are Tidegate's."""
    script = EXAMPLES / "mwaa/startup.sh"
    done = subprocess.run(["sh", "-n", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in re.findall(r"^export (\w+)=", script.read_text(), re.MULTILINE):
        assert f"`{name}`" in page("docs/configuration.md"), name


def test_connections_in_the_pages_are_valid() -> None:
    """Those within a sentence."""
    found = re.findall(r"`(\{\"conn_type\"[^`]*\})`", page("docs/how-to/platforms.md"))
    assert found
    for text in found:
        environ = {"AIRFLOW_CONN_SPARK_DEFAULT": text}
        spark = connections.read_environment_connection("spark_default", environ)
        assert spark is not None
        assert connections.parse_spark_connection("spark_default", spark).master == "local[2]"
        assert json.loads(text)["conn_type"] == "spark"
