"""Take the screens in docs/img: of a local stack that runs and has the demo, in Chromium.

    .venv/bin/tidegate demo && .venv/bin/python tests/tools/screens.py

`chromium` must be on the PATH (Debian: apt-get install chromium). It is spoken to in its own
protocol, because only so a login can be handed to it.
"""

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import connect

from tidegate_local import airflow, stack
from tidegate_local.home import default_home
from tidegate_local.ports import free_port

IMAGES = Path(__file__).parents[2] / "docs/img"
SIZE = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}


class Page:
    """One page of a browser; `do` sends a command of the DevTools protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ids = itertools.count(1)

    def do(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (answer := json.loads(self._socket.recv(30))).get("id") != number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def says(self, script: str) -> Any:
        return self.do("Runtime.evaluate", expression=script)["result"].get("value")

    def screen(self, url: str, words: str, name: str) -> None:
        """Keep what an address shows, once it (or a frame in it) shows `words`."""
        self.do("Page.navigate", url=url)
        texts = (
            "[document, ...[...document.querySelectorAll('iframe')].map(f => f.contentDocument)]"
        )
        script = f"{texts}.some(d => d?.body?.innerText.includes({json.dumps(words)}))"
        until = time.monotonic() + 30
        while not self.says(script):
            assert time.monotonic() < until, f"{url}: no {words!r}: {self.says(texts)}"
            time.sleep(0.2)
        time.sleep(1.0)  # what still moves
        data = base64.b64decode(self.do("Page.captureScreenshot", format="png")["data"])
        (IMAGES / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "there is no chromium on the PATH"
    port = free_port()
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                chromium, "--headless=new", f"--remote-debugging-port={port}", "--disable-gpu",
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


def main() -> None:
    home = default_home()
    running = stack.read(home)
    assert running, f"no stack in {home}"
    api, url = running.api(home), running.airflow
    login = {"username": airflow.USER, "password": airflow.password(home)}
    token = httpx.post(f"{url}/auth/token", json=login, trust_env=False).json()["access_token"]
    link, link_back = (
        api.xcom(dag, "demo-1", "publish", "_link_ReportLink")
        for dag in ("tidegate__flights", "tidegate__flights_back")
    )
    IMAGES.mkdir(exist_ok=True)
    with browser() as page:
        page.do("Emulation.setDeviceMetricsOverride", **SIZE)
        page.do("Network.setCookie", name="_token", value=token, url=url)
        page.screen(f"{url}/plugin/tidegate", "flights", "status.png")
        page.screen(f"{url}/{link}", "Plan", "report.png")
        page.screen(f"{url}/{link_back}", "Plan", "report-back.png")


if __name__ == "__main__":
    main()
