"""The Kubernetes pod of a driver in cluster mode: its key, and what identifies it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tidegate.core.json_codec import Document
from tidegate.errors import ConfigurationError

DIRECTORY = "/opt/tidegate"
"""Where driver and executors have the volume with Tidegate's modules and the key."""
KEY = "key"
"""The name of the key in the Secret."""
FIELDS = MappingProxyType(
    {
        "TIDEGATE_POD_NAMESPACE": "metadata.namespace",
        "TIDEGATE_POD_NAME": "metadata.name",
        "TIDEGATE_POD_UID": "metadata.uid",
        "TIDEGATE_POD_NODE": "spec.nodeName",
    }
)
"""The variables by which a driver knows its pod, each with the field that it is made of."""


@dataclass(frozen=True)
class Pod(Document):
    """A pod. Its name may be given again, its `uid` never."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"

    def read_key(self, jvm: Any) -> bytes:
        """Return the key of the job. ConfigurationError if its volume is not there."""
        del jvm
        path = Path(DIRECTORY, KEY)
        try:
            return path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}: the Secret of the job") from error


def own_pod(environ: Mapping[str, str] = os.environ) -> Pod | None:
    """Return the pod of this process. None outside of one that Tidegate has submitted."""
    values = [environ.get(name, "") for name in FIELDS]
    return Pod(*values) if all(values) else None
