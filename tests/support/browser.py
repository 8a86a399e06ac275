"""Chromium without a window, spoken to in its own protocol: so a login can be handed to it."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import httpx
from websockets.sync.client import connect

from tidegate_local.ports import free_port

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Page:
    """One page of a browser; `do` sends a command of the DevTools protocol.

    `events` are what the browser told meanwhile: requests, messages of the console.
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.events: list[dict[str, Any]] = []
        self._ids = itertools.count(1)

    def do(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (answer := json.loads(self._socket.recv(30))).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def says(self, script: str) -> Any:
        return self.do("Runtime.evaluate", expression=script)["result"].get("value")

    def shows(self, script: str, seconds: float = 30) -> Any:
        """Wait until a script has a value that is true, and return it."""
        until = time.monotonic() + seconds
        while not (value := self.says(script)):
            assert time.monotonic() < until, script
            time.sleep(0.1)
        return value

    def press(self, key: str) -> None:
        """Press a key: Tab, Enter."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.do(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {}),
            )  # fmt: skip


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    assert CHROMIUM, "there is no chromium on the PATH (Debian: apt-get install chromium)"
    port = free_port()
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                CHROMIUM, "--headless=new", f"--remote-debugging-port={port}", "--disable-gpu",
                "--disable-background-networking", "--no-first-run",
                f"--user-data-dir={profile}", "--no-proxy-server", *as_root, "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            with connect(_address(port), max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(10)


def _address(port: int) -> str:
    until = time.monotonic() + 30
    while True:
        with contextlib.suppress(httpx.TransportError):
            found = httpx.get(f"http://127.0.0.1:{port}/json/list", trust_env=False).json()
            if pages := [each for each in found if each["type"] == "page"]:
                return str(pages[0]["webSocketDebuggerUrl"])
        assert time.monotonic() < until, "Chromium does not answer"
        time.sleep(0.1)
