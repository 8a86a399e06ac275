"""The specs of pipelines: frozen, and validated with all complaints at once.

Contradictions between keys are found key by key, by the valid values of earlier keys, so that they
are reported beside all wrong values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from tidegate.pipelines import decode_spec
from tidegate.pipelines.airflow_spec import AirflowSettings, Told
from tidegate.pipelines.complaints import complaints
from tidegate.pipelines.egress_spec import Columns, Egress, Source, Target
from tidegate.pipelines.ingest_spec import Ingest, StartAt
from tidegate.pipelines.strict import SendingSpark, Spark

__all__ = [
    "Columns",
    "Egress",
    "Ingest",
    "Source",
    "Spark",
    "Spec",
    "StartAt",
    "Target",
    "parse_spec",
]

Spec = Ingest | Egress

_KINDS: Mapping[str, type[Ingest] | type[Egress]] = {"ingest": Ingest, "egress": Egress}
_OF_AIRFLOW: Mapping[str, type[BaseModel]] = {
    "airflow": AirflowSettings,
    "airflow.on_failure": Told,
}
_PARTS: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "ingest": {
        "": Ingest,
        "spark": Spark,
        "start": StartAt,
        **_OF_AIRFLOW,
        **dict(decode_spec.decoder_keys()),
    },
    "egress": {
        "": Egress,
        "spark": SendingSpark,
        "source": Source,
        "target": Target,
        "columns": Columns,
        **_OF_AIRFLOW,
    },
}
_KNOWN_KEYS = {
    kind: {
        path: sorted(field.alias or name for name, field in model.model_fields.items())
        for path, model in parts.items()
    }
    for kind, parts in _PARTS.items()
}


def parse_spec(form: dict[str, Any]) -> Spec:
    """Return the spec; ValueError with one complaint a line if it is not valid."""
    kind = form.get("kind")
    if kind not in tuple(_KINDS):
        kind = "egress" if {"source", "target"} & form.keys() else "ingest"
    try:
        spec = _KINDS[kind].model_validate(form)
    except ValidationError as error:
        known = _KNOWN_KEYS[kind]
        lines = (line for each in error.errors() for line in complaints(each, known))
        raise ValueError("\n".join(dict.fromkeys(lines))) from None
    if isinstance(spec, Ingest) and spec.assign:
        return spec.model_copy(update={"topics": tuple(spec.assign)})
    return spec
