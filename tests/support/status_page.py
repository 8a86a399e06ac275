"""The page in Airflow's UI, as tests read it: a pipeline, browsers that are logged in, cells."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path

from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI

from tidegate import ui
from tidegate.core.entries import Account, Commit, Origin, Reference
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import open_store

with warnings.catch_warnings():
    # Airflow imports Starlette's test client, which would rather have a fork of httpx.
    warnings.simplefilter("ignore")
    from airflow.api_fastapi.app import init_auth_manager
    from fastapi.testclient import TestClient

TOPIC, TOPIC_ID, CLUSTER = "flights", "7f0c7a52-0b5e-4c26-9d7e-0a8f3f1f7f11", "cluster-1"
PIPELINE = """
name: {name}
kind: ingest
topics: [flights]
lake: {lake}
"""


def make_flights(pipelines: Path, lake: str) -> None:
    """Make a pipeline of two partitions: 1,500 offsets of the first are committed."""
    (pipelines / "flights.yaml").write_text(PIPELINE.format(name="flights", lake=lake))
    ledger = Ledger(open_store(lake, "flights"), "flights")
    commit = Commit(
        lane="live",
        plan_id="0" * 16,
        plan_sha256="0" * 64,
        chunk=0,
        attempt="a1",
        cluster_id=CLUSTER,
        topic_ids={TOPIC: TOPIC_ID},
        accounts={TOPIC: {0: Account(1_000, 2_500, 1_499, 1)}},
        manifest=Reference("m", "0" * 64),
    )
    for entry in (Origin(TOPIC, TOPIC_ID, {0: 1_000, 1: 20}), commit):
        assert isinstance(ledger.append(entry, run="r"), Appended)


Login = Callable[[str | None], TestClient]
"""Returns a browser with the cookie of Airflow's login in a role; no role has no rights."""


def logins() -> Login:
    """Return how to log in to the page."""
    manager = init_auth_manager()
    airflow = FastAPI()
    airflow.mount("/tidegate", ui.serve)

    def browser(role: str | None) -> TestClient:
        token = manager.generate_jwt(SimpleAuthManagerUser(username="ann", role=role))
        return TestClient(airflow, cookies={"_token": token})

    return browser


def cells(html: str) -> list[list[str]]:
    """Return the texts of each table row that has cells; a bar is its kinds and their widths."""
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in html.split("<tr>")]
    return [[text(cell) for cell in row] for row in rows if row]


def text(cell: str) -> str:
    if "<svg" in cell:
        runs = re.findall(r'class="(\w+)" x="\d+" width="(\d+)"', cell)
        return " ".join(f"{kind} {width}" for kind, width in runs)
    return " ".join(cell.split())
