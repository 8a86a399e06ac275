"""A client of Airflow's REST API: its CLI would take six seconds a command."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx

from tidegate.errors import TidegateError, Transient

OVER = frozenset({"success", "failed"})


class AirflowUnreachable(Transient):
    """Airflow's API server does not answer (yet)."""


class AirflowRefused(TidegateError):
    """Airflow's API server refused a request. The message has its answer."""


class RunUnfinished(Transient):
    """A run did not end in time."""


class AirflowApi:
    """A client with one login. Every method may raise AirflowUnreachable or AirflowRefused."""

    def __init__(self, url: str, *, user: str, password: str) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        # A proxy of the environment does not know this machine's loopback.
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=30.0)

    def heartbeats(self) -> dict[str, datetime]:
        """Return the last heartbeat of each component that Airflow reports as healthy."""
        health = self._call("GET", "/api/v2/monitor/health", login=False)
        return {
            name.replace("_", "-"): datetime.fromisoformat(beat)
            for name, state in health.items()
            if state["status"] == "healthy" and (beat := state.get(f"latest_{name}_heartbeat"))
        }

    def dags(self) -> dict[str, datetime]:
        """Return the time at which each DAG was last parsed."""
        found = self._all("/api/v2/dags", "dags", order_by="dag_id")
        return {dag["dag_id"]: datetime.fromisoformat(dag["last_parsed_time"]) for dag in found}

    def import_errors(self) -> list[tuple[str, str, datetime]]:
        """Return (file, stack trace, time) of every DAG file that cannot be parsed."""
        found = self._all("/api/v2/importErrors", "import_errors")
        return [
            (each["filename"], each["stack_trace"], datetime.fromisoformat(each["timestamp"]))
            for each in found
        ]

    def unpause(self, dag_id: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def trigger(
        self,
        dag_id: str,
        run_id: str,
        *,
        due: datetime | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> bool:
        """Trigger a run. Return False if a run of this id exists already.

        Waiting runs start in the order in which they are `due`. `conf` has the Params.
        """
        body: dict[str, Any] = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}}
        if due:
            body["run_after"] = due.isoformat()
        path = f"/api/v2/dags/{dag_id}/dagRuns"
        return self._call("POST", path, json=body, without={409}) is not None

    def backfill(self, dag_id: str, start: datetime, end: datetime, *, at_once: int) -> int:
        """Backfill all intervals that begin from `start` to `end`. Return the backfill's id."""
        body = {
            "dag_id": dag_id,
            "from_date": start.isoformat(),
            "to_date": end.isoformat(),
            "max_active_runs": at_once,
            "reprocess_behavior": "none",
        }
        return int(self._call("POST", "/api/v2/backfills", json=body)["id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any] | None:
        """Return Airflow's record of a run, or None."""
        found: dict[str, Any] | None = self._call("GET", _run(dag_id, run_id), without={404})
        return found

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the last hundred runs, oldest first."""
        query = {"limit": 100, "order_by": "-start_date"}
        path = f"/api/v2/dags/{dag_id}/dagRuns"
        found: list[dict[str, Any]] = self._call("GET", path, params=query)["dag_runs"]
        return found[::-1]

    def clear(self, dag_id: str, run_id: str) -> None:
        """Rerun the failed tasks of a run, and those that waited for them."""
        body = {"dry_run": False, "only_failed": True}
        self._call("POST", f"{_run(dag_id, run_id)}/clear", json=body)

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return Airflow's records of the task instances of a run."""
        path = f"{_run(dag_id, run_id)}/taskInstances"
        found: list[dict[str, Any]] = self._call("GET", path)["task_instances"]
        return found

    def wait(
        self,
        dag_id: str,
        run_id: str,
        *,
        timeout: float,
        on_change: Callable[[dict[str, str]], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Wait until a run is over. `on_change` gets the state of every task when one changes."""
        deadline = time.monotonic() + timeout
        seen: dict[str, str] = {}
        while True:
            try:
                run = self.run(dag_id, run_id)
                tasks = {t["task_id"]: t["state"] or "none" for t in self.tasks(dag_id, run_id)}
            except AirflowUnreachable:  # the server is busy, or is restarting
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)
                continue
            if run is None:
                raise AirflowRefused(f"run {run_id} of {dag_id} is gone")
            if tasks != seen:
                on_change(seen := tasks)
            if run["state"] in OVER:
                return run
            if time.monotonic() > deadline:
                raise RunUnfinished(
                    f"run {run_id} of {dag_id} is still {run['state']} after {timeout:.0f} s:"
                    f" {seen}; watch it at {self.url}/dags/{dag_id}/runs/{run_id}"
                )
            time.sleep(1.0)

    def complete(
        self,
        dag_id: str,
        run_id: str,
        *,
        timeout: float,
        on_retry: Callable[[], None] = lambda: None,
        on_change: Callable[[dict[str, str]], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Trigger a run, unless it exists, unpause the DAG, and wait. Failed tasks are retried.

        It is triggered while the DAG is still paused and due an hour ago, so that it goes before
        the scheduled run that unpausing makes.
        """
        due = datetime.now(UTC) - timedelta(hours=1)
        if not self.trigger(dag_id, run_id, due=due):
            found = self.run(dag_id, run_id)
            if found and found["state"] == "failed":
                on_retry()
                self.clear(dag_id, run_id)
        self.unpause(dag_id)
        return self.wait(dag_id, run_id, timeout=timeout, on_change=on_change)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any:
        """Return the XCom of a task under `key`, or None."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/{key}"
        found = self._call("GET", path, params={"deserialize": True}, without={404})
        return found and found["value"]

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> list[str]:
        """Return the messages of one try of a task, exceptions as one line each."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}"
        found = self._call("GET", path, params={"full_content": True}, without={404})
        lines = [text for line in (found["content"] if found else []) for text in _texts(line)]
        return [text for text in lines if not text.startswith("::")]  # folding marks of the UI

    def variable(self, key: str) -> str | None:
        """Return the text of a Variable, or None."""
        found = self._call("GET", f"/api/v2/variables/{key}", without={404})
        return str(found["value"]) if found else None

    def _all(self, path: str, key: str, **params: str) -> list[dict[str, Any]]:
        """Return all pages of a collection."""
        found: list[dict[str, Any]] = []
        while True:
            answer = self._call("GET", path, params={**params, "limit": 100, "offset": len(found)})
            found += answer[key]
            if not answer[key] or len(found) >= answer["total_entries"]:
                return found

    def _call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        without: Collection[int] = (),
        login: bool = True,
    ) -> Any:
        """Return the decoded answer. None for a status in `without`."""
        try:
            if login and "Authorization" not in self._http.headers:
                token = self._call("POST", "/auth/token", json=self._login, login=False)
                self._http.headers["Authorization"] = f"Bearer {token['access_token']}"
            answer = self._http.request(method, path, json=json, params=params)
        except httpx.TransportError as error:
            raise AirflowUnreachable(f"{self.url} does not answer: {error}") from None
        if answer.status_code in without:
            return None
        if answer.status_code >= 500:
            raise AirflowUnreachable(f"{self.url}{path} says {answer.status_code}: {answer.text}")
        if answer.is_error:
            raise AirflowRefused(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()


def _texts(line: str | Mapping[str, Any]) -> list[str]:
    if isinstance(line, str):
        return [line]
    errors = line.get("error_detail") or []
    return [line["event"], *(f"{e['exc_type']}: {e['exc_value']}" for e in errors)]


def _run(dag_id: str, run_id: str) -> str:
    # A scheduled run's id holds a time with its "+".
    return f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
