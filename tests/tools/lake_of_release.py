"""Make the lake that tests keep of a release: `python tests/tools/lake_of_release.py DIRECTORY`.

With a real broker and real Spark, by the commands of the release that is installed. The lake has
origins, commits, a gap, claims; a checkpoint and entries after it, a replaced window, a backfill,
deliveries of a lake and of files, an unfinished plan with a sealed chunk, and a plan of an egress
that was not claimed. `expected.json` is what the release itself printed of it, `package.tar.xz`
the package without its page.

`{home}` in the pipelines' files and in `expected.json` stands for the directory of the lake. Within
the lake, where digests cover them, the paths are those of the directory in which it was made.
"""

import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tidegate
from support import topic_records
from support.cli_user import Terminal
from tidegate.core import canonical
from tidegate_local import kafka

MACHINE = {
    "host": "worker-1",
    "machine": "0" * 32,
    "boot": "00000000-0000-4000-8000-000000000000",
}
"""What the fixture says of the machine on which it was made."""


def main(into: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        try:
            bootstrap = kafka.start(home / "kafka").bootstrap
            terminal = Terminal(home, bootstrap, environ={"LOGNAME": "ann"}, processes=True)
            make(terminal)
            expected = printed(terminal)
        finally:
            kafka.stop(home / "kafka")
        for log in terminal.lake.glob("*/_tidegate/log"):
            without_machine(log)
        into.mkdir()
        shutil.copytree(terminal.lake, into / "lake")
        (into / "pipelines").mkdir()
        texts = {path.name: path.read_text() for path in terminal.pipelines.iterdir()}
        for name, text in texts.items():
            (into / "pipelines" / name).write_text(text.replace(directory, "{home}"))
        text = json.dumps(expected, indent=1)
        (into / "expected.json").write_text(text.replace(directory, "{home}"))
        pack(Path(tidegate.__file__).parent, into / "package.tar.xz")


def make(terminal: Terminal) -> None:
    """Fill the terminal's lake."""
    bootstrap = terminal.bootstrap
    terminal.pipeline("orders", ["orders"], max_records=40)
    for topic in ("returned", "lines"):
        topic_records.create(bootstrap, topic, partitions=2)
    source = terminal.home / "files"
    source.mkdir()
    (source / "a.json").write_text('{"value": "one"}\n{"value": "two"}\n')
    terminal.egress("returned", source={"lake": "orders"}, target={"topic": "returned"})
    lines = {"path": str(source / "*.json"), "format": "json"}
    terminal.egress("lines", source=lines, target={"topic": "lines"})

    topic_records.create(bootstrap, "orders", partitions=2)
    topic_records.numbers(bootstrap, "orders", 60, partitions=2)
    terminal.run("run", "orders", "--run-id", "first")
    terminal.run("checkpoint", "orders")
    topic_records.numbers(bootstrap, "orders", 40, partitions=2, first=60)
    terminal.run("offsets", "set", "orders", "orders", "0", "40", "--reason", "a known bad window")
    terminal.run("run", "orders", "--run-id", "second")
    window = ("--start", "0", "--end", "20")
    terminal.run("replay", "orders", "--replay-id", "again", "--partitions", "1", *window)
    gap = ("--partitions", "0", "--start", "30", "--end", "35")
    terminal.run("backfill", "orders", "--run-id", "part-of-the-gap", *gap)
    terminal.run("run", "returned", "--run-id", "first")
    terminal.run("run", "lines", "--run-id", "first")
    topic_records.numbers(bootstrap, "orders", 20, partitions=2, first=100)
    terminal.end_at("publish.before", "run", "orders", "--run-id", "unfinished")
    terminal.run(
        "run", "returned", "--run-id", "unfinished", code=86, TIDEGATE_FAULT="plan.frozen:exit"
    )


def printed(terminal: Terminal) -> dict[str, object]:
    """Return what the release prints of the lake."""
    return {
        "offsets": terminal.json("offsets", "show", "orders"),
        "files": terminal.json("files", "orders"),
        "coverage": terminal.json("coverage", "orders"),
        **{
            f"verify {name}": terminal.json("verify", name)
            for name in ("orders", "returned", "lines")
        },
    }


def without_machine(log: Path) -> None:
    """Put MACHINE into the claims of a ledger; the entries after one follow from the new bytes."""
    previous = ""
    for path in sorted(log.glob("*.json")):
        entry = json.loads(path.read_bytes())
        if "sender" in entry:
            entry["sender"] |= MACHINE
        data = canonical.encode(entry | {"previous": previous})
        path.write_bytes(data)
        previous = canonical.digest(data)


def pack(package: Path, archive: Path) -> None:
    """Write the Python files of a package, equal bytes for equal files."""
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(package.rglob("*.py")):
            name = path.relative_to(package)
            if name.parts[0] != "ui":
                member = tarfile.TarInfo(f"{package.name}/{name.as_posix()}")
                member.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(member, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
