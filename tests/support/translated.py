"""Translations of settings, and the pipeline files that they are."""

import json
from pathlib import Path
from typing import Any

import yaml

from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest
from tidegate.pipelines.translation import Translation, translate

CANARY = "zq7canary"
"""A secret."""
TOPIC = {"subscribe": "t"}
SOURCE = {
    "name": "Restore-1", "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
    "s3.bucket.name": "raw", "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "mode": "GENERALIZED", "topic.regex.list": "orders:.*\\.json", "s3.poll.interval.ms": "60000",
}  # fmt: skip
"""Of Kafka Connect."""


def of(form: dict[str, Any], stem: str = "") -> Translation:
    return translate(json.dumps(form).encode(), stem)


def keys(made: Translation) -> dict[str, Any]:
    """Return the keys of the file, whether or not it is complete."""
    form = yaml.safe_load(made.text)
    assert isinstance(form, dict)
    return form


def loaded(made: Translation, directory: Path) -> Ingest | Egress:
    """Return the spec of the file, read as a pipeline's."""
    file = directory / f"{made.name}.yaml"
    file.write_text(made.text)
    return files.load(file, {"TIDEGATE_LAKE": "/lake"})


def comments(made: Translation) -> str:
    """Return all comments as one text, without their line ends."""
    lines = [line.strip() for line in made.text.splitlines()]
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
