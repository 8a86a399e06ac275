"""A server of Azure Blob Storage: Azurite, from npm, kept in the cache of the jars."""

import base64
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import fs

from tidegate.launch import jars
from tidegate.launch.file_lock import hold_lock
from tidegate_local.ports import free_port

VERSION, OLDEST_NODE = "3.37.0", 20
ACCOUNT, CONTAINER = "devstoreaccount1", "lakes"
# Azurite closes connections after 5 idle seconds, and its option to change that has no effect.
_PATIENT = (
    "import http from 'http'; const {listen} = http.Server.prototype;"
    "http.Server.prototype.listen = function (...given) {"
    "this.on('listening', () => { this.keepAliveTimeout = 600000 });"
    "return listen.apply(this, given) }"
)
KEY = base64.b64encode(bytes(range(64))).decode()


@dataclass(frozen=True)
class AzureServer:
    """Where it is, and the URL of its container."""

    port: int
    bucket = f"{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a client uses this server."""
        return {
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    @property
    def files(self) -> fs.AzureFileSystem:
        """PyArrow's client of it."""
        where = f"127.0.0.1:{self.port}"
        return fs.AzureFileSystem(
            ACCOUNT, account_key=KEY, blob_storage_authority=where, dfs_storage_authority=where,
            blob_storage_scheme="http", dfs_storage_scheme="http",
        )  # fmt: skip


def _program() -> Path:
    """Return Azurite's directory. It is fetched once. Skips the test without Node.js."""
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        pytest.skip("Azurite needs Node.js and npm")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(said.strip("v\n").partition(".")[0]) < OLDEST_NODE:
        pytest.skip(f"Azurite needs Node.js {OLDEST_NODE}, and this is {said.strip()}")
    home = jars.cache_dir() / f"azurite-{VERSION}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(home.with_suffix(".lock")):
        if not home.exists():
            new = home.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            fetch = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(
                [*fetch, "--loglevel=error", f"azurite@{VERSION}"], cwd=new, check=True, timeout=300
            )
            new.rename(home)
    return home


@contextmanager
def running() -> Iterator[AzureServer]:
    """Start it, with the container."""
    found = AzureServer(free_port())
    script = _program() / "node_modules/azurite/dist/src/blob/main.js"
    process = subprocess.Popen(
        [
            *("node", "--import", f"data:text/javascript,{_PATIENT}", script),
            *("--blobHost", "127.0.0.1", "--blobPort", str(found.port), "--silent"),
            *("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"),
        ],
        env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
        stderr=subprocess.DEVNULL,  # warnings of Node.js
    )
    try:
        until = time.monotonic() + 60
        while not _answers(found.port):
            assert time.monotonic() < until, "the server does not answer"
            assert process.poll() is None, "the server has ended"
            time.sleep(0.1)
        found.files.create_dir(CONTAINER)
        yield found
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
