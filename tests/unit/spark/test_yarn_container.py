"""What a driver in a YARN container knows of itself."""

import json
import time
from typing import Any
from unittest.mock import MagicMock

import pytest

from tidegate.errors import ConfigurationError
from tidegate.spark.yarn_container import SECRET, Container, own_container, read_secret

ENVIRON = {
    "CONTAINER_ID": "container_1795412612181_0002_01_000001",
    "NM_HOST": "node-1",
    "NM_PORT": "8041",
    "NM_HTTP_PORT": "8042",
}


def test_a_driver_names_its_container() -> None:
    before = int(time.time() * 1000)
    found = own_container(ENVIRON)
    assert found is not None
    assert (found.id, found.node) == (ENVIRON["CONTAINER_ID"], "node-1:8042")
    assert before <= found.started <= time.time() * 1000
    assert Container.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("missing", ["CONTAINER_ID", "NM_HOST", "NM_HTTP_PORT"])
def test_outside_yarn_there_is_no_container(missing: str) -> None:
    assert (
        own_container({name: value for name, value in ENVIRON.items() if name != missing}) is None
    )
    assert own_container({**ENVIRON, missing: ""}) is None


def jvm(keys: dict[str, bytes]) -> Any:
    """Return a JVM whose user has these secret keys."""
    fake = MagicMock()
    fake.org.apache.hadoop.io.Text = str
    users = fake.org.apache.hadoop.security.UserGroupInformation
    users.getCurrentUser.return_value.getCredentials.return_value.getSecretKey = keys.get
    return fake


def test_the_key_comes_from_the_credentials() -> None:
    assert read_secret(jvm({SECRET: b"\x00key"})) == b"\x00key"


def test_a_key_that_was_lost_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="have no key of Tidegate"):
        read_secret(jvm({"other": b"{}"}))
