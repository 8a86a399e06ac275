"""Requested windows: every complaint at once; windows between timestamps tile."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core import windows
from tidegate.core.boundaries import Boundary, clamp_boundary, to_milliseconds
from tidegate.core.cursor import Watermarks
from tidegate.core.draft import draft_window, expired_below, out_of_reach, retained_gaps
from tidegate.core.entries import Account, Commit, Gap, Origin, Reference
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut
from tidegate.core.windows import anchor_edge, parse_edges, parse_range

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        ("0", 0),
        (" 120 ", 120),
        ('{"t": {"0": 5, "3": 0}}', {0: 5, 3: 0}),
        ("2026-03-14T10:00:00Z", datetime(2026, 3, 14, 10, tzinfo=UTC)),
        ("2026-03-14 11:00+01:00", datetime(2026, 3, 14, 10, tzinfo=UTC)),
    ],
)
def test_an_edge_is_offsets_or_a_timestamp(text, edge):
    found = parse_edges("t", text, text, NOW)
    assert (found.start, found.end, found.complaints) == (edge, edge, [])


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (None, "", ["start: missing", "end: missing"]),
        ("-1", "9", ["start '-1': an offset is not negative"]),
        ("earliest", "9", ["neither an offset, nor offsets in Spark's form, nor a time"]),
        ("2026-03-14T10:00:00", "9", ["a time without a zone"]),
        ("2026-03-14", "9", ["zone: say 2026-03-14T00:00:00Z or 2026-03-14T00:00:00+01:00"]),
        ("0", "2026-03-14T10:00:00Z", ["give both as offsets, or both as timestamps"]),
        ("2026-03-14T10:00Z", "2026-03-14T09:59Z", ["is after end"]),
        ("2026-03-14T10:00Z", "2026-03-14T12:00:01Z", ["is in the future"]),
        ('{"u": {"0": 1}}', "9", ['offsets are {"t": {"0": 123}}']),
        ('{"t": {"0": -2}}', "{", ["not an offset: t-0: -2", "end '{'"]),
        ("{}", '{"t": 5}', ["start '{}'", "end '{\"t\": 5}'"]),
    ],
)
def test_edges_that_are_not_valid(start, end, said):
    """Each complaint names the edge; the other edge is checked, too."""
    complaints = parse_edges("t", start, end, NOW).complaints
    assert len(complaints) == len(said), complaints
    for complaint, words in zip(complaints, said, strict=True):
        assert words in complaint


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2026-03-29", "2026-03-29T00:00:00+01:00"),
        ("2026-03-30", "2026-03-30T00:00:00+02:00"),
        ("2026-03-30 10:30", "2026-03-30T10:30:00+02:00"),
        ("2026-03-14T10:00:00Z", "2026-03-14T10:00:00Z"),
        ("-1d", "2026-03-13T12:00:00+00:00"),
        ("-36h", "2026-03-13T00:00:00+00:00"),
        (" -30m ", "2026-03-14T11:30:00+00:00"),
        ("20260314", "20260314"),
        ("-999999d", "-999999d"),
        ("-5", "-5"),
        ('{"t": {"0": 5}}', '{"t": {"0": 5}}'),
        ("14.3.2026", "14.3.2026"),
        (None, None),
    ],
)
def test_an_edge_that_means_the_same_tomorrow(text, means):
    """Dates and times in the zone, across its summer time; durations before now."""
    assert anchor_edge(text, ZoneInfo("Europe/Berlin"), NOW) == means


def test_a_window_may_have_no_end():
    """It ends where the offsets of its partitions do; without a start both are missing."""
    for start in ("-5h", "7"):
        edges = parse_edges("t", anchor_edge(start, ZoneInfo("UTC"), NOW), None, NOW)
        edges.end_at({0: 10, 1: 20, 2: 30}, (0, 1))
        assert (edges.end, edges.complaints) == ({0: 10, 1: 20}, [])
    edges = parse_edges("t", None, " ", NOW)
    edges.end_at({0: 10}, (0,))
    assert (edges.end, edges.complaints) == (None, ["start: missing", "end: missing"])


def test_an_exact_range():
    assert parse_range(" a.b_c-1:12:120-340") == OffsetRange("a.b_c-1", 12, 120, 340)
    for wrong in ("t:0:5", "t:0:9-5", "t:x:1-2", "t:0:1-2:3", ":0:1-2", "t-0:1-2", "t:0:-1-2"):
        with pytest.raises(ValueError, match="range "):
            parse_range(wrong)


def window(start, end, *, partitions=None, there=(0, 1, 2), assigned=None):
    found = parse_edges("t", start, end, NOW)
    complaints = list(found.complaints)
    chosen = windows.choose_partitions(partitions, found, there, complaints, assigned)
    return windows.resolve_ranges("t", chosen, found, {}, complaints), complaints


def test_which_partitions_are_chosen():
    """The requested ones; else those that an edge names; else all."""
    whole = [OffsetRange("t", p, 2, 5) for p in range(3)]
    assert window("2", "5") == (whole, [])
    assert window("2", "5", partitions=(1,)) == (whole[1:2], [])
    assert window('{"t": {"1": 2, "2": 2}}', "5") == (whole[1:], [])


def test_only_assigned_partitions_are_chosen():
    """All of them if none is named; others are refused, whether or not they exist."""
    whole = [OffsetRange("t", p, 2, 5) for p in range(3)]
    assert window("2", "5", assigned={0, 2, 7}) == ([whole[0], whole[2]], [])
    assert window("2", "5", assigned={0, 2}, partitions=(2,)) == ([whole[2]], [])
    for edge, partitions in (('{"t": {"1": 2, "2": 2, "9": 2}}', None), ("2", (1, 2, 9))):
        found, complaints = window(edge, "5", assigned={0, 2}, partitions=partitions)
        assert found == [whole[2]]
        assert complaints == [
            "no partitions [9]: there are 0 to 2",
            "partitions [1] are not assigned: `assign` names [0, 2]",
        ]


def test_no_partitions_are_none():
    """An empty list is refused: it means neither all partitions nor an empty window."""
    found, complaints = window("2", "5", partitions=())
    assert (found, complaints) == (
        [], ["partitions: none is named; name some, or leave it out for all"],
    )  # fmt: skip


def test_every_complaint_about_a_window_at_once():
    ranges, complaints = window('{"t": {"0": 9, "7": 0}}', '{"t": {"0": 4, "1": 4}}')
    assert ranges == []
    assert complaints == [
        "no partitions [7]: there are 0 to 2",
        "partition 0: start 9 is after end 4",
        "partition 1: start says nothing of it",
    ]
    assert window("0", '{"t": {"1": 4}}', partitions=(0, 5))[1] == [
        "no partitions [5]: there are 0 to 2",
        "offsets for partitions [1], which are not asked for",
        "partition 0: end says nothing of it",
    ]


def fold_of(*entries):
    fold = Fold()
    for entry in entries:
        fold.apply(entry, "digest")
    return fold


def commit(start, end):
    account = {"t": {0: Account(start, end, end - start, 0)}}
    manifest = Reference("m", "sha")
    return Commit("live", f"p{start}", "sha", 0, "a", "c", {"t": "id"}, account, manifest)


KNOWN = fold_of(
    Origin("t", "id", {0: 0}),
    commit(10, 20),
    commit(40, 50),
    Gap("t", "id", 0, 0, 5, "expired", "r"),
    Gap("t", "id", 0, 20, 30, "by hand", "r"),
)


def part(start, end):
    return OffsetRange("t", 0, start, end)


def test_a_backfill_takes_what_no_commit_holds():
    """Skipped offsets too; covered ones are reported and not read."""
    made = draft_window(
        KNOWN, "id", [part(12, 60)], {0: Watermarks(2, 70, 70)}, on_expired="fail", by="r"
    )
    assert made.ranges == [part(20, 40), part(50, 60)]
    assert made.covered == [part(12, 20), part(40, 50)]
    assert (made.gaps, made.left_out) == ([], [])


@pytest.mark.parametrize("on_expired", ["fail", "skip"])
def test_what_expired_goes_by_policy(on_expired):
    """Only offsets without a gap; the rest of the partition is planned."""
    marks = {0: Watermarks(25, 70, 70)}
    made = draft_window(KNOWN, "id", [part(0, 60)], marks, on_expired=on_expired, by="me")
    assert made.ranges == [part(25, 40), part(50, 60)]
    gone = LeftOut("t", 0, "expired", {"start": 5, "end": 10, "offsets": 5})
    gap = Gap("t", "id", 0, 5, 10, "expired", "me")
    assert made.left_out == ([gone] if on_expired == "fail" else [])
    assert made.gaps == ([gap] if on_expired == "skip" else [])


def test_what_the_log_does_not_reach_is_excluded():
    """Truncated since the window was planned first, or cut by a time at the end of the lake."""
    marks = {0: Watermarks(0, 35, 35)}
    made = draft_window(KNOWN, "id", [part(20, 60)], marks, on_expired="fail", by="me")
    assert made.ranges == [part(20, 35)]
    assert made.left_out == [LeftOut("t", 0, "truncated", {"cursor": 35, "end": 35})]


def test_out_of_reach_is_refused():
    """Beyond the end, and below the log start unless a commit holds it."""
    marks = {0: Watermarks(20, 45, 60)}
    assert out_of_reach(KNOWN, "id", [part(10, 45)], marks) == []
    assert out_of_reach(KNOWN, "id", [part(4, 46)], marks) == [
        "partition 0: end 46 is beyond the end 45",
        "partition 0: [4, 10) is before the log start 20",
    ]


@pytest.mark.parametrize(
    ("start", "log_start", "lost"),
    [
        (40, 40, [(30, 40)]),  # the log begins here: nothing retained is before the window
        (40, 39, []),  # a retained record is before it
        (30, 40, []),  # what is right below is a gap, which is reported
        (20, 40, []),  # a commit holds what is right below
        (60, 60, [(50, 60)]),
        (10, 60, [(5, 10)]),  # the first row of the lake
        (0, 0, []),
    ],
)
def test_what_expired_right_below_a_time(start, log_start, lost):
    """Its records may be of the window; only what is in no commit and no gap is named."""
    marks = {0: Watermarks(log_start, 70, 70)}
    assert list(expired_below(KNOWN, "id", part(start, 65), marks)) == lost


def test_gaps_that_can_be_filled():
    assert retained_gaps(KNOWN, "t", "id", [0], {0: Watermarks(3, 28, 28)}) == [
        part(3, 5),
        part(20, 28),
    ]


# Boundaries: whatever the timestamps do, adjacent windows tile.


@dataclass
class Log:
    """A partition as a broker has it: the timestamps of its records, and its log start."""

    stamps: list[int] = field(default_factory=list)
    start: int = 0

    def at(self, moment):
        """Return what Kafka answers: the first retained record at or after the moment, or None."""
        later = (o for o in range(self.start, len(self.stamps)) if self.stamps[o] >= moment)
        return next(later, None)


def frozen(boundaries, moment, logs):
    """Freeze a moment between its neighbours, as the lake does."""
    found = {p: len(log.stamps) if (o := log.at(moment)) is None else o for p, log in logs.items()}
    earlier = [b for m, b in boundaries.items() if m < moment]
    later = [b for m, b in boundaries.items() if m > moment]
    below = max(earlier, key=lambda b: b.moment, default=None)
    above = min(later, key=lambda b: b.moment, default=None)
    boundaries.setdefault(moment, Boundary("t", "id", moment, clamp_boundary(found, below, above)))


stamps = st.lists(st.integers(-1, 30), max_size=8)
steps = st.lists(
    st.tuples(
        st.lists(stamps, min_size=1, max_size=3),  # records for each partition that there is
        st.integers(0, 4),  # how far the log starts move
        st.lists(st.integers(0, 30), max_size=3),  # timestamps that are frozen then
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_adjacent_windows_tile(steps):
    """Shuffled, equal, missing or append-time stamps; late records, expiry, new partitions, and
    timestamps frozen in any order: no boundary is before an earlier one, so each offset between the
    first and the last is in exactly one window.
    """
    logs: dict[int, Log] = {}
    boundaries: dict[int, Boundary] = {}
    for records, expired, moments in steps:
        for p, some in enumerate(records):
            logs.setdefault(p, Log()).stamps += some
        for log in logs.values():
            log.start = min(len(log.stamps), log.start + expired)
        for moment in moments:
            frozen(boundaries, moment, logs)
    for p, log in logs.items():
        cuts = [boundaries[m].offsets.get(p, 0) for m in sorted(boundaries)]
        assert cuts == sorted(cuts)
        assert all(0 <= cut <= len(log.stamps) for cut in cuts)


@settings(max_examples=100, deadline=None)
@given(stamps, st.lists(st.integers(0, 30), max_size=5))
def test_a_quiet_log_is_cut_where_kafka_says(stamps, moments):
    """Neighbours change nothing then: the first record at or after the moment, else the end."""
    logs = {0: Log(stamps)}
    boundaries: dict[int, Boundary] = {}
    for moment in moments:
        frozen(boundaries, moment, logs)
    for moment, boundary in boundaries.items():
        first = [o for o, stamp in enumerate(stamps) if stamp >= moment]
        assert boundary.offsets[0] == (first[0] if first else len(stamps))


def test_a_timestamp_is_milliseconds_rounded_down():
    assert to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)) == 1_000
    assert to_milliseconds(datetime(2026, 3, 14, tzinfo=UTC)) == 1_773_446_400_000
