"""Take the screens in docs/img, in Chromium: of made pipelines, and of a local stack with the demo.

.venv/bin/tidegate demo && .venv/bin/python tests/tools/screens.py

With `[--bad] --look DIRECTORY` pages of made pipelines in both themes, wide and narrow, to look at.
"""

import base64
import json
import os
import sys
import time
from itertools import product
from pathlib import Path
from unittest import mock

import httpx

PROJECT = Path(__file__).parents[2]
sys.path[0] = str(PROJECT / "tests")

from support.browser import Page, browser  # noqa: E402
from support.doc_pages import fenced  # noqa: E402
from support.doc_pages import page as page_of_docs  # noqa: E402
from support.made_page import made_page  # noqa: E402
from tidegate import flows  # noqa: E402
from tidegate.ingest.explain import IngestExplained  # noqa: E402
from tidegate_local import airflow, stack  # noqa: E402
from tidegate_local.home import default_home  # noqa: E402

IMAGES = PROJECT / "docs/img"
SIZE = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
MANY = 300


CONNECTIONS = {
    "AIRFLOW_CONN_KAFKA_DEFAULT": '{"extra": {"bootstrap.servers": "broker:9092"}}',
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
}
PAGES = {
    "overview": "",
    "failing": "pipeline/p0000",
    "losing": "pipeline/p0020",
    "egress": "pipeline/p0004",
    "healthy": "pipeline/p0001",
    "backfill": "pipeline/p0000/backfill",
    "dry-run": "pipeline/p0000/backfill?start=-1d",
}


def screen(page: Page, url: str, words: str, name: str, to: Path = IMAGES) -> None:
    """Keep what an address shows, once it (or a frame in it) shows `words`."""
    page.do("Page.navigate", url=url)
    texts = "[document, ...[...document.querySelectorAll('iframe')].map(f => f.contentDocument)]"
    script = f"{texts}.some(d => d?.body?.innerText.includes({json.dumps(words)}))"
    until = time.monotonic() + 30
    while not page.says(script):
        assert time.monotonic() < until, f"{url}: no {words!r}: {page.says(texts)}"
        time.sleep(0.2)
    time.sleep(1.0)  # what still moves
    data = base64.b64decode(page.do("Page.captureScreenshot", format="png")["data"])
    (to / name).write_bytes(data)
    print(f"{name}: {len(data):,} bytes")


def of_the_demo() -> None:
    """Take the reports of the demo's runs."""
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
        screen(page, f"{url}/{link}", "Plan", "report.png")
        screen(page, f"{url}/{link_back}", "Plan", "report-back.png")


def of_made_pipelines() -> None:
    """Take the overview of many pipelines in all states, and the page of one that fails."""
    with made_page(MANY) as (url, token), browser() as page:
        page.do("Emulation.setDeviceMetricsOverride", **SIZE)
        page.do("Network.setCookie", name="_token", value=token, url=url)
        screen(page, url, "the worst first", "status.png")
        screen(page, f"{url}pipeline/p0000", "Runs", "pipeline.png")


def to_look_at(directory: Path, *, bad: bool) -> None:
    """Take all pages of made pipelines; or the overview of a morning on which most are red."""
    form = json.loads(fenced(page_of_docs("docs/json.md#explain"), "json")[0])
    explained = IngestExplained.from_json(form)
    directory.mkdir(parents=True, exist_ok=True)
    pages = {"bad-morning": ""} if bad else PAGES
    with (
        made_page(MANY, every=1 if bad else 20) as (url, token),
        mock.patch.object(flows.INGEST, "explain", return_value=explained),
        mock.patch.dict(os.environ, CONNECTIONS),
        browser() as page,
    ):
        page.do("Network.setCookie", name="_token", value=token, url=url)
        for theme, width, name in product(("light", "dark"), (1280, 420), pages):
            page.do("Emulation.setDeviceMetricsOverride", **{**SIZE, "width": width})
            page.do("Page.navigate", url=url)
            page.shows("document.readyState == 'complete'")
            page.says(f"localStorage.theme = '{theme}'")
            screen(page, url + pages[name], "", f"{name}-{theme}-{width}.png", directory)


if __name__ == "__main__":
    if "--look" in sys.argv:
        to_look_at(Path(sys.argv[-1]), bad="--bad" in sys.argv)
    else:
        of_made_pipelines()
        if "--made" not in sys.argv:
            of_the_demo()
