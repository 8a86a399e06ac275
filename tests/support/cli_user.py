"""A user's terminal: pipelines, a lake and connections of their own, and the `tidegate` command."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import in_process

TIDEGATE = Path(sys.executable).with_name("tidegate")


@dataclass
class Terminal:
    """Runs commands with nothing of this machine's own Tidegate around them."""

    home: Path
    bootstrap: str
    extra: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    """The lake, where it is not a directory of this home."""
    processes: bool = False
    """Whether each command is a process of its own, although it could do without."""
    program: Path = TIDEGATE

    @property
    def lake(self) -> Path:
        return self.home / "lake"

    @property
    def pipelines(self) -> Path:
        return self.home / "pipelines"

    def pipeline(self, name: str, topics: list[str], **settings: Any) -> None:
        """Write an ingest pipeline's file (JSON is YAML)."""
        self.pipelines.mkdir(parents=True, exist_ok=True)
        form = {
            "name": name,
            "kind": "ingest",
            "topics": topics,
            "lake": self.url or str(self.lake),
        }
        (self.pipelines / f"{name}.yaml").write_text(json.dumps(form | settings))

    def egress(self, name: str, **settings: Any) -> None:
        """Write an egress pipeline's file; files count as settled at once."""
        self.pipelines.mkdir(parents=True, exist_ok=True)
        form = {"name": name, "kind": "egress", "lake": str(self.lake), "settle": 0}
        (self.pipelines / f"{name}.yaml").write_text(json.dumps(form | settings))

    def env(self, **more: str) -> dict[str, str]:
        kafka = {"bootstrap.servers": self.bootstrap} | self.extra
        foreign = ("TIDEGATE_", "AIRFLOW", "AWS_", "GOOGLE_", "AZURE_")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        cache = {k: v for k, v in os.environ.items() if k == "TIDEGATE_CACHE"}
        return {
            **clean,
            **cache,
            "TIDEGATE_TESTING": "1",
            "TIDEGATE_HOME": str(self.home / "stack"),
            "TIDEGATE_PIPELINES": str(self.pipelines),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            **self.environ,
            **more,
        }

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """Start a command; its output goes to pipes."""
        return subprocess.Popen(
            [str(self.program), *args],
            env=self.env(**env),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *args: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, and insist on its exit code, if one is given.

        By default `status` may also end with its codes of a pipeline that needs action. With
        variables of its own (another JVM, keys, a fault that ends it) it is a process.
        """
        if self.processes or self.environ or not in_process.can_have(env):
            with self.start(*args, **env) as process:
                out, err = process.communicate(timeout=180)
            done = subprocess.CompletedProcess(args, process.returncode, out, err)
        else:
            done = in_process.run(args, self.env(**env))
        allowed = (0, 3, 4) if (args[0], code) == ("status", 0) else (code,)
        assert code is None or done.returncode in allowed, (
            f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def end_at(self, point: str, *args: str) -> None:
        """Let the process of a command end itself at a fault point of `publish` or behind it.

        What comes before, Spark's part, is done in the test's own process.
        """
        self.run(*args, "--json", code=1, TIDEGATE_FAULT="publish.before:raise")
        self.run(*args, code=86, TIDEGATE_FAULT=f"{point}:exit")

    def json(self, *args: str, code: int = 0, **env: str) -> Any:
        """Run a command with --json, and return the one document on its stdout."""
        return json.loads(self.run(*args, "--json", code=code, **env).stdout)

    def tree(self) -> dict[str, int]:
        """Return every file of the lake with its size."""
        return {
            str(path.relative_to(self.lake)): path.stat().st_size
            for path in sorted(self.lake.rglob("*"))
            if path.is_file()
        }
