"""Run an S3 server, SeaweedFS, in one process on the loopback address.

Data, log, keys (mode 0600) and ports are kept in its home directory.
"""

import json
import os
import secrets
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.errors import TidegateError
from tidegate.lake import s3_buckets
from tidegate.launch.file_lock import hold_lock
from tidegate_local import processes, state_files
from tidegate_local.ports import free_port, is_free

REGION = "us-east-1"
_NAME = "s3"
_TIMEOUT = 60.0
_PARTS = ("master", "volume", "filer", "s3")
"""Each listens on two ports: HTTP and gRPC."""


class S3DidNotStart(TidegateError):
    """The local S3 server ended, or did not answer in time. The message has its last error."""

    exit_code = 2


@dataclass(frozen=True)
class Server:
    """A running server, and the keys of its administrator."""

    endpoint: str
    access_key: str
    secret_key: str
    metrics: str
    master: str
    pid: int
    home: Path

    def __repr__(self) -> str:
        return f"Server({self.endpoint}, pid {self.pid})"  # the key is secret

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a client uses this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def client(self) -> Any:
        """Return botocore's client of this server."""
        return s3_buckets.s3_client(
            s3_buckets.Location(self.endpoint, REGION, path_style=True),
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )


def start(home: Path, *, port: int | None = None, bucket: str | None = None) -> Server:
    """Start the server of this home, or return the running one, once it answers.

    `port` is kept in the home. A running server does not see a new one before its next start. The
    bucket is created if it is not there.
    """
    home = home.absolute()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_lock(home / ".lock"):
        if find(home) is None:
            ports = _configure(home, port)
            _remove_sockets(ports)
            # Keys in its environment would be accepted as well.
            env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
            processes.start(_NAME, _command(home, ports), home=home, cwd=home, env=env)
        server = find(home)
        processes.wait_until_ready(
            processes.find(_NAME, home=home),
            lambda: server is not None and _answers(server),
            timeout=_TIMEOUT,
            failure=lambda reason: _failure(home, reason),
        )
        assert server is not None
        if bucket:
            create_bucket(server.client(), bucket)
        return server


def find(home: Path) -> Server | None:
    """Return the server of this home if it is running."""
    home = home.absolute()
    process = processes.find(_NAME, home=home)
    ports, keys = state_files.read(home / "ports.json"), state_files.read(home / "keys.json")
    if process is None or ports is None or keys is None:
        return None
    key = keys["identities"][0]["credentials"][0]
    return Server(
        endpoint=f"http://127.0.0.1:{ports['s3']}",
        access_key=key["accessKey"],
        secret_key=key["secretKey"],
        metrics=f"http://127.0.0.1:{ports['metrics']}/metrics",
        master=f"http://127.0.0.1:{ports['master']}",
        pid=process.pid,
        home=home,
    )


def stop(home: Path) -> bool:
    """End the server. False when it was not running.

    Its own shutdown takes 15 s. It is killed earlier: acknowledged objects are in its files.
    """
    home = home.absolute()
    ended = processes.stop(_NAME, home=home, timeout=3.0)
    _remove_sockets(state_files.read(home / "ports.json") or {})
    return ended


def create_bucket(client: Any, bucket: str) -> None:
    """Create a bucket if it is not there."""
    with suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
        client.create_bucket(Bucket=bucket)


def _command(home: Path, ports: Mapping[str, int]) -> list[str]:
    listening = [
        f"-{part}.port{kind}={ports[part + kind]}" for part in _PARTS for kind in ("", ".grpc")
    ]
    # fmt: off
    return [
        str(Path(sys.executable).with_name("weed")), "-logtostderr=true", "server",
        "-filer", "-s3", f"-s3.config={home / 'keys.json'}",
        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *listening, f"-metricsPort={ports['metrics']}",
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false", "-s3.autoCreateBucket=false",
        "-master.peers=none", "-master.telemetry=false",
        f"-dir={home / 'data'}", "-master.volumeSizeLimitMB=64", "-volume.max=200",
    ]
    # fmt: on


def _configure(home: Path, port: int | None) -> dict[str, int]:
    """Create what a home keeps (data, ports and keys) if it is missing. Return the ports."""
    (home / "data").mkdir(exist_ok=True)
    names = [part + kind for part in _PARTS for kind in ("", ".grpc")]
    kept = state_files.read(home / "ports.json") or dict.fromkeys((*names, "metrics"), 0)
    taken = kept.values()
    # A port that another process took while this server was down is replaced.
    ports = {n: at if at and is_free(at) else free_port(taken) for n, at in kept.items()}
    ports["s3"] = port or ports["s3"]
    state_files.write(home / "ports.json", ports)
    if not (home / "keys.json").exists():
        key = {"accessKey": secrets.token_hex(10).upper(), "secretKey": secrets.token_urlsafe(30)}
        user = {"name": "tidegate", "credentials": [key], "actions": ["Admin"]}
        state_files.write(home / "keys.json", {"identities": [user]})
    return ports


def _remove_sockets(ports: Mapping[str, int]) -> None:
    """Remove the Unix sockets that it creates beside its ports, and that a killed one leaves."""
    for port in ports.values():
        for socket in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            with suppress(OSError):  # another user's
                socket.unlink()


def _answers(server: Server) -> bool:
    """Return whether the gateway answers and the master knows volumes for objects."""
    urllib.request.urlopen(f"{server.endpoint}/healthz", timeout=2.0).close()  # URLError is OSError
    with urllib.request.urlopen(f"{server.master}/dir/status", timeout=2.0) as answer:
        return bool(json.load(answer)["Topology"]["Max"])


def _failure(home: Path, reason: str) -> S3DidNotStart:
    line = processes.last_error_line(_NAME, home=home, pattern="^[FE]")
    return S3DidNotStart(f"the S3 server in {home} {reason}: {line}")
