"""The job that an application is given: by a private file, or encrypted in the lake."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyspark import SparkContext

from tidegate.errors import ConfigurationError
from tidegate.spark import yarn_container
from tidegate.spark.answers import DRIVER, FAILURE, JOB, WITHDRAWN, LocalAnswers
from tidegate.spark.job_files import JobFile
from tidegate.spark.received_job import receive_job
from tidegate.spark.yarn_container import Container

CONTAINER = Container("container_17_0001_01_000001", "node-1:8042", 7)


@dataclass(frozen=True)
class Job(JobFile):
    password: str


class Cipher:
    """What Java's cipher does, by another library."""

    DECRYPT_MODE = 2

    def init(self, mode: int, key: tuple[bytes, str], nonce: tuple[int, bytes]) -> None:
        assert (mode, key[1], nonce[0]) == (2, "AES", 128)
        self._key, self._nonce = key[0], nonce[1]

    def doFinal(self, content: bytes) -> bytes:
        return AESGCM(self._key).decrypt(self._nonce, content, None)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return the key among the credentials of a driver in a container."""
    key = secrets.token_bytes(32)
    crypto: Any = MagicMock()
    crypto.Cipher.getInstance = {"AES/GCM/NoPadding": Cipher()}.__getitem__
    crypto.Cipher.DECRYPT_MODE = 2
    crypto.spec.SecretKeySpec = lambda *args: args
    crypto.spec.GCMParameterSpec = lambda *args: args
    jvm = MagicMock()
    jvm.javax.crypto = crypto
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda: None)
    monkeypatch.setattr(SparkContext, "_jvm", jvm)
    monkeypatch.setattr(yarn_container, "read_secret", lambda _: key)
    monkeypatch.setattr(yarn_container, "own_container", lambda: CONTAINER)
    return key


def encrypted(key: bytes, job: Job) -> bytes:
    nonce = secrets.token_bytes(12)
    return nonce + AESGCM(key).encrypt(nonce, json.dumps(job.to_json()).encode(), None)


def test_a_private_file_is_read_and_deleted(tmp_path: Path) -> None:
    Job("pä55").write(tmp_path / "job.json")
    job, answers = receive_job(Job, (str(tmp_path / "job.json"),))
    assert job == Job("pä55")
    assert list(tmp_path.iterdir()) == []
    answers.create("sending")
    assert (tmp_path / "sending").read_text() == ""


def test_a_job_in_the_lake_is_decrypted_and_deleted(tmp_path: Path, key: bytes) -> None:
    (tmp_path / JOB).write_bytes(encrypted(key, Job("pä55")))
    job, answers = receive_job(Job, ("--in-lake", str(tmp_path)))
    assert job == Job("pä55")
    assert [path.name for path in tmp_path.iterdir()] == [DRIVER]
    assert Container.from_json(json.loads(answers.read(DRIVER) or "")) == CONTAINER


@pytest.mark.parametrize("left", [None, WITHDRAWN])
def test_a_job_that_was_withdrawn_is_not_done(
    tmp_path: Path, key: bytes, left: bytes | None
) -> None:
    """The driver has named itself before it looked: so its end will be waited for."""
    if left is not None:
        (tmp_path / JOB).write_bytes(left)
    with pytest.raises(FileNotFoundError):
        receive_job(Job, ("--in-lake", str(tmp_path)))
    assert (tmp_path / DRIVER).exists()
    assert (tmp_path / FAILURE).exists()


def test_a_driver_names_itself_before_it_reads(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(BaseException):
        pass

    def stop(*_: object) -> bytes:
        assert (tmp_path / DRIVER).exists()
        raise Stopped

    monkeypatch.setattr(LocalAnswers, "take", stop)
    with pytest.raises(Stopped):
        receive_job(Job, ("--in-lake", str(tmp_path)))


def test_a_job_of_another_key_is_refused(tmp_path: Path, key: bytes) -> None:
    (tmp_path / JOB).write_bytes(encrypted(secrets.token_bytes(32), Job("pä55")))
    with pytest.raises(InvalidTag):
        receive_job(Job, ("--in-lake", str(tmp_path)))
    assert "pä55" not in (tmp_path / FAILURE).read_text()


def test_outside_a_cluster_nothing_is_read(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yarn_container, "own_container", lambda: None)
    (tmp_path / JOB).write_bytes(encrypted(key, Job("pä55")))
    with pytest.raises(ConfigurationError, match="driver in cluster mode"):
        receive_job(Job, ("--in-lake", str(tmp_path)))
    assert (tmp_path / JOB).exists()


def test_a_second_driver_does_not_take_the_place_of_the_first(tmp_path: Path, key: bytes) -> None:
    """The end of the one that has the job is to be proven, not that of one that YARN adds."""
    first = json.dumps(CONTAINER.to_json() | {"id": "container_17_0001_02_000001"})
    (tmp_path / DRIVER).write_text(first)
    (tmp_path / JOB).write_bytes(encrypted(key, Job("pä55")))
    with pytest.raises(ConfigurationError, match=r"belongs to the driver .*0001_02_000001"):
        receive_job(Job, ("--in-lake", str(tmp_path)))
    assert (tmp_path / DRIVER).read_text() == first
    assert (tmp_path / JOB).exists()
