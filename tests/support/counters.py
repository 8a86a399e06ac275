"""What may only grow by decision: the table `tests/counters.json`."""

import json
from collections.abc import Mapping
from pathlib import Path

TABLE = Path(__file__).parents[1] / "counters.json"


def refuse_more(what: str, found: Mapping[str, float]) -> None:
    """Fail if a counter is above the table; one that has become lower is to be written down."""
    known = json.loads(TABLE.read_text())[what]
    more = {k: (n, known.get(k, 0)) for k, n in found.items() if n > known.get(k, 0)}
    less = {k: (n, found.get(k, 0)) for k, n in known.items() if found.get(k, 0) < n * 0.95}
    assert not more, f"{what}: more than {TABLE.name} allows (found, allowed): {more}"
    assert not less, f"{what}: write the lower number into {TABLE.name} (known, found): {less}"
