"""Run a real S3 server, SeaweedFS, in one process on the loopback address.

Everything is in its home: the data, the log, the keys (mode 0600), and the ports, which stay the
same for as long as the home exists.
"""

import json
import os
import re
import secrets
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.errors import TidegateError
from tidegate.lake import s3_settings
from tidegate.launch.file_lock import locked
from tidegate_local import processes, state_files
from tidegate_local.ports import free_port, is_free

REGION = "us-east-1"
_NAME = "s3"
_PATIENCE = 60.0
_PARTS = ("master", "volume", "filer", "s3")
"""Each listens on two ports: HTTP and gRPC."""


class S3DidNotStart(TidegateError):
    """The local S3 server ended, or did not answer in time; its log says why."""

    exit_code = 2


@dataclass(frozen=True)
class Server:
    """A running server, and a user who may do everything there."""

    endpoint: str
    access_key: str
    secret_key: str
    metrics: str
    pid: int
    home: Path

    def __repr__(self) -> str:
        return f"Server({self.endpoint}, pid {self.pid})"  # the key is secret

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs in its environment to work here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def client(self) -> Any:
        """Return botocore's client of this server."""
        return s3_settings.client(
            s3_settings.Location(self.endpoint, REGION, path_style=True),
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )


def start(home: Path, *, port: int | None = None, bucket: str | None = None) -> Server:
    """Start the server of this home, or return the running one, once it answers.

    `port` is kept in the home; a running server does not see a new one before its next start. The
    bucket is created if it is not there.
    """
    home = home.absolute()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(home / ".lock"):
        if find(home) is None:
            ports = _remember(home, port)
            _remove_sockets(ports)
            # With keys in its environment it would let their owner in as well.
            env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
            processes.start(_NAME, _command(home, ports), home=home, cwd=home, env=env)
        server = find(home)
        if server is None:
            raise _did_not_start(home, "ended at once")
        _wait_until_ready(server)
        if bucket:
            _create_bucket(server, bucket)
        return server


def find(home: Path) -> Server | None:
    """Return the server of this home if it runs."""
    home = home.absolute()
    process = processes.find(_NAME, home=home)
    if process is None:
        return None
    ports, (access, secret) = _ports(home), _keys(home)
    return Server(
        endpoint=f"http://127.0.0.1:{ports['s3']}",
        access_key=access,
        secret_key=secret,
        metrics=f"http://127.0.0.1:{ports['metrics']}/metrics",
        pid=process.pid,
        home=home,
    )


def stop(home: Path) -> bool:
    """End the server; False when it was not running.

    Its own way of ending takes a quarter of a minute, in which it serves nobody. What it has
    acknowledged is in its files, so it is not given that long.
    """
    home = home.absolute()
    ended = processes.stop(_NAME, home=home, timeout=3.0)
    with suppress(FileNotFoundError):
        _remove_sockets(_ports(home))
    return ended


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


def _remember(home: Path, port: int | None) -> dict[str, int]:
    """Make what a home keeps: data, ports and keys; return the ports."""
    (home / "data").mkdir(exist_ok=True)
    try:
        kept = _ports(home)
        fresh = _free_ports(*kept.values())
        # Another one where a process took it while this server was down.
        ports = {name: each if is_free(each) else next(fresh) for name, each in kept.items()}
    except FileNotFoundError:
        fresh = _free_ports()
        names = [part + kind for part in _PARTS for kind in ("", ".grpc")]
        ports = {name: next(fresh) for name in (*names, "metrics")}
    ports["s3"] = port or ports["s3"]
    state_files.write(home / "ports.json", ports)
    if not (home / "keys.json").exists():
        key = {"accessKey": secrets.token_hex(10).upper(), "secretKey": secrets.token_urlsafe(30)}
        user = {"name": "tidegate", "credentials": [key], "actions": ["Admin"]}
        state_files.write(home / "keys.json", {"identities": [user]})
    return ports


def _ports(home: Path) -> dict[str, int]:
    return dict(json.loads((home / "ports.json").read_text()))


def _keys(home: Path) -> tuple[str, str]:
    form = json.loads((home / "keys.json").read_text())
    key = form["identities"][0]["credentials"][0]
    return key["accessKey"], key["secretKey"]


def _free_ports(*others: int) -> Iterator[int]:
    """Yield free ports, none twice and none of the others: nobody listens on them yet."""
    given = set(others)
    while True:
        if (port := free_port()) not in given:
            given.add(port)
            yield port


def _remove_sockets(ports: Mapping[str, int]) -> None:
    """Remove the sockets that it makes beside its ports, and that a killed one leaves."""
    for port in ports.values():
        for socket in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            with suppress(OSError):  # another user's
                socket.unlink()


def _wait_until_ready(server: Server) -> None:
    """Return once the gateway answers and the master knows where objects can be put."""
    master = f"http://127.0.0.1:{_ports(server.home)['master']}/dir/status"
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if find(server.home) != server:
            raise _did_not_start(server.home, "ended")
        with suppress(OSError):  # URLError too
            urllib.request.urlopen(f"{server.endpoint}/healthz", timeout=2.0).close()
            with urllib.request.urlopen(master, timeout=2.0) as answer:
                if json.load(answer)["Topology"]["Max"]:
                    return
        time.sleep(0.05)
    raise _did_not_start(server.home, f"did not answer within {_PATIENCE:.0f} s")


def _create_bucket(server: Server, bucket: str) -> None:
    client = server.client()
    with suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
        client.create_bucket(Bucket=bucket)


def _did_not_start(home: Path, what: str) -> S3DidNotStart:
    said = processes.last_words(_NAME, home=home, is_error=re.compile("[FE]").match)
    return S3DidNotStart(f"the S3 server in {home} {what}: {said}")
