"""What tests of the doctor share: its lines, a committed range, and a store that overwrites."""

from pathlib import Path

from support import staged_attempts
from tidegate.core.offsets import OffsetRange
from tidegate.lake import committing


def states_and_text(lines):
    """Return `(check, state)` of each line, and the text of all of them."""
    lines = list(lines)
    assert all((line.fix is None) == (line.state == "ok") for line in lines)
    text = "\n".join(f"{line.says} → {line.fix}" for line in lines)
    return [(line.check, line.state) for line in lines], text


def commit(store, start, end):
    """Publish `[start, end)` of t-0."""
    plan = staged_attempts.plan_of((OffsetRange("t", 0, start, end),))
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")


def overwrite(store, path, data):
    """Write without create-if-absent, in place of a store's `create`."""
    target = Path(store.native(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return True
