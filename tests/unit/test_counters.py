"""Cheap signs of slowness: modules that a command imports, requests of a run to its store."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from nets import test_real_stores as real
from nets.objects import Gate
from nets.world import World, playing
from support.counters import refuse_more

COUNT = """
import atexit, sys
known = sys.stdlib_module_names
atexit.register(lambda: print(sum(m.partition(".")[0] not in known for m in sys.modules)))
sys.argv = ["tidegate", *sys.argv[1:]]
from tidegate.cli.main import run
run()
"""


@pytest.mark.parametrize("command", ["--help", "status"])
def test_modules_that_a_command_imports(command, tmp_path):
    """Of packages; the standard library's differ from one Python to the next."""
    (tmp_path / "p.yaml").write_text(f"name: p\nkind: ingest\ntopics: [t]\nlake: {tmp_path}/lake\n")
    here = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, command],
        env={
            **here,
            "TIDEGATE_PIPELINES": str(tmp_path),
            "TIDEGATE_HOME": str(tmp_path / "home"),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        },
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    refuse_more(f"modules imported by {command}", {"packages": int(done.stdout.splitlines()[-1])})


@pytest.mark.parametrize("where", ["a bucket", "a directory"])
def test_requests_of_a_run(where, tmp_path):
    """A live run of three chunks of two partitions, then one that finds nothing new."""
    with playing(tmp_path / "in") as world:
        if where == "a directory":
            lake = str(tmp_path / "lake")
            world.open_store = lambda objects, name: real.Gated(lake, objects, name)
        for what, step in ("run", World.live), ("nothing new", lambda w: w.live("again")):
            gate = Gate()
            world.restart(gate)
            step(world)
            found = Counter(kind for kind, _ in gate.requests)
            refuse_more(f"requests of {where}: {what}", found)
