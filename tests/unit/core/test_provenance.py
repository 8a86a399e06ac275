"""The header by which a record names its plan and row."""

import pytest

from tidegate.core import provenance
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import SourceFile
from tidegate.core.provenance import HEADER, Provenance


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"f00d:0:17:", Provenance("f00d", 0, 17)),
        (b"f00d:12:999999999999999999:1700000000123", Provenance("f00d", 12, 10**18 - 1)),
        (b"f00d:0:1:-5", Provenance("f00d", 0, 1)),
        *((each, None) for each in (
            None, b"", b"f00d", b"f00d:0:1", b"f00d:0:1::", b"f00d:-1:1:", b"f00d:0:x:",
            b"f00d::1:", b"f00d:0:9223372036854775808:", b"\xff\xff", "f00d:²:1:".encode(),
        )),
    ],
)  # fmt: skip
def test_what_a_header_says(value, said):
    """None for what has another form: others may write a header of this name."""
    assert provenance.provenance_of([("a", b"1"), (HEADER, value)]) == said


def test_the_last_header_counts():
    """A record that is sent on has the header of its first plan before; an agent appends others."""
    headers = [(HEADER, b"a:0:1:"), (HEADER, b"b:2:3:"), ("trace", b"x")]
    assert provenance.provenance_of(headers) == Provenance("b", 2, 3)
    assert provenance.provenance_of([]) is None


def test_what_an_index_stands_for():
    """Files in the plan's order, partitions by topic id and number, whatever their topics."""
    files = [SourceFile("b", 1, "e"), SourceFile("a", 1, "e")]
    assert provenance.provenance_names(files, (), {}) == ("b", "a")
    window = [OffsetRange(t, p, 0, 1) for t, p in (("a", 10), ("a", 9), ("z", 9))]
    assert provenance.provenance_names((), window, {"a": "id-2", "z": "id-1"}) == (
        "id-1/9", "id-2/9", "id-2/10",
    )  # fmt: skip
