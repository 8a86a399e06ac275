"""Where partitions that are new to a pipeline begin: every form of `start`, and every refusal."""

from dataclasses import replace
from datetime import date

import pytest

from support.handed_in import HERE
from support.kafka_answers import answer
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Origin
from tidegate.core.fold import Fold
from tidegate.errors import ConfigurationError
from tidegate.ingest import start
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
MARKS = {"t": {0: Watermarks(3, 9, 12), 1: Watermarks(0, 5, 5)}, "u": {0: Watermarks(7, 8, 8)}}
SEEN = Survey(
    "cluster", {t: TopicIdentity(f"id-{t}", dict.fromkeys(m, 0)) for t, m in MARKS.items()}, MARKS
)
AT, LATER = "2026-03-14T00:00:00Z", "2026-03-15T00:00:00Z"
TIMES = {"t": {0: AT, 1: LATER}, "u": {0: LATER}}


class Broker:
    """A cluster whose records are all of one time."""

    asked = None


def offsets_since(_, times):
    Broker.asked = times
    late = start.to_milliseconds(parse_spec(form({"timestamp": LATER})).start.timestamp)
    return {t: {p: 4 if ms < late else None for p, ms in of.items()} for t, of in times.items()}


@pytest.fixture(autouse=True)
def broker(monkeypatch):
    answer(monkeypatch, offsets_since=offsets_since)
    answer(monkeypatch, committed=lambda *_: {"t": {0: 5, 7: 1}})


def form(at, **keys):
    keys = keys or {"topics": ["t", "u"]}
    return {"name": "p", "kind": "ingest", "lake": "/lake", "start": at, **keys}


def begun(at, *, fold=None, seen=SEEN, said=None, **keys):
    said = [] if said is None else said
    run = Run(parse_spec(form(at, **keys)), KAFKA, "dag", "r", date(2026, 3, 14), **HERE)
    if run.spec.pattern:
        run = replace(run, spec=run.spec.model_copy(update={"topics": tuple(MARKS)}))
    return start.start_offsets(run, fold or Fold(), seen.only(run.spec.assign), said)


def recorded(**origins):
    fold = Fold()
    for topic, partitions in origins.items():
        fold.apply(Origin(topic, f"id-{topic}", partitions), "digest")
    return fold


EARLIEST = {"t": {0: 3, 1: 0}, "u": {0: 7}}
LATEST = {"t": {0: 9, 1: 5}, "u": {0: 8}}


@pytest.mark.parametrize(
    ("at", "offsets"),
    [
        ("earliest", EARLIEST),
        ("smallest", EARLIEST),
        ("beginning", EARLIEST),
        ("latest", LATEST),
        ("largest", LATEST),
        ("end", LATEST),
        ({"timestamp": AT}, {"t": {0: 4, 1: 4}, "u": {0: 4}}),
        ({"timestamp": LATER}, LATEST),
        ({"timestamp": LATER, "otherwise": "earliest"}, EARLIEST),
        ({"timestamp": LATER, "otherwise": "smallest"}, EARLIEST),
        ({"timestamps": TIMES}, {"t": {0: 4, 1: 5}, "u": {0: 8}}),
        ({"timestamps": TIMES, "otherwise": "earliest"}, {"t": {0: 4, 1: 0}, "u": {0: 7}}),
        ({"group": "g"}, {"t": {0: 5, 1: 0}, "u": {0: 7}}),
        ({"group": "g", "otherwise": "latest"}, {"t": {0: 5, 1: 5}, "u": {0: 8}}),
        ({"offsets": {"t": {0: 3, 1: 5}, "u": {0: 8}}}, {"t": {0: 3, 1: 5}, "u": {0: 8}}),
        ({"offsets": {"t": {0: -2, 1: -1}, "u": {0: -2}}}, {"t": {0: 3, 1: 5}, "u": {0: 7}}),
    ],
)
def test_every_form(at, offsets):
    """Kafka's own numbers for the ends, -2 and -1, too; a log's end is its last stable offset (req
    1.3).
    """
    assert begun(at) == offsets


def test_each_partition_is_asked_for_its_own_timestamp():
    begun({"timestamps": TIMES})
    day = 86_400_000
    first = Broker.asked["t"][0]
    assert Broker.asked == {"t": {0: first, 1: first + day}, "u": {0: first + day}}


@pytest.mark.parametrize(
    ("at", "complaints"),
    [
        (
            {"offsets": {"t": {0: 2, 1: 6}, "u": {0: 8}}},
            "start.offsets: t-0: 2 is not in [3, 9]; t-1: 6 is not in [0, 5]",
        ),
        (
            {"offsets": {"t": {0: 3, 2: 6}}},
            "start.offsets: t-1 has no start; t-2 does not exist; u-0 has no start",
        ),
        ({"offsets": {"u": {0: 8}}}, "start.offsets: t-0 has no start; t-1 has no start"),
        (
            {"timestamps": {"t": {0: AT, 2: AT}, "u": {0: AT}}},
            "start.timestamps: t-1 has no start; t-2 does not exist",
        ),
        (
            # It is for partitions without a later record, not for those without a time.
            {"timestamps": {"t": {0: AT, 1: AT}}, "otherwise": "earliest"},
            "start.timestamps: u-0 has no start",
        ),
        (
            {"timestamps": TIMES, "otherwise": "fail"},
            "start: t-1: no record since 2026-03-15T00:00:00+00:00, and the log ends at offset 5; "
            "u-0: no record since 2026-03-15T00:00:00+00:00, and the log ends at offset 8",
        ),
        (
            {"group": "g", "otherwise": "fail"},
            "start: t-1: group 'g' has committed no offset; u-0: group 'g' has committed no offset",
        ),
    ],
)
def test_every_refusal_names_all_partitions(at, complaints):
    """Nothing is recorded then: the next plan decides afresh."""
    with pytest.raises(ConfigurationError) as refused:
        begun(at)
    assert str(refused.value) == f"pipeline 'p': {complaints}"


def test_what_the_ledger_knows_does_not_begin_again():
    """Neither its partitions nor those that Kafka adds: these begin at 0, whatever `start` says."""
    assert begun("latest", fold=recorded(t={0: 3})) == {"u": {0: 8}}
    known = recorded(t={0: 3}, u={0: 7})
    for at in ("latest", {"offsets": {"t": {0: 99}}}, {"group": "g", "otherwise": "fail"}):
        assert begun(at, fold=known) == {}


def test_a_new_topic_with_a_partition_that_has_no_leader_waits():
    """Except where `assign` names its partitions: each of them begins by itself."""
    t = replace(SEEN.identities["t"], leaderless=frozenset({2}))
    seen = replace(SEEN, identities={**SEEN.identities, "t": t})
    assert begun("latest", seen=seen) == {"u": {0: 8}}
    assert begun("latest", seen=seen, assign={"t": [1, 2]}) == {"t": {1: 5}}


def test_partitions_that_are_newly_assigned_begin_where_start_says():
    """Only those without an origin, which exist; the file names the others' starts, too."""
    known = recorded(t={0: 3})
    assign = {"t": [0, 1, 4], "u": [0]}
    assert begun("latest", fold=known, assign=assign) == {"t": {1: 5}, "u": {0: 8}}
    offsets = {"t": {0: 99, 1: 2, 4: 77}, "u": {0: -2}}
    assert begun({"offsets": offsets}, fold=known, assign=assign) == {"t": {1: 2}, "u": {0: 7}}
    with pytest.raises(ConfigurationError, match=r"'p': start.offsets: t-1: 6 is not in \[0, 5\]$"):
        begun({"offsets": {**offsets, "t": {0: 99, 1: 6, 4: 77}}}, fold=known, assign=assign)


@pytest.mark.parametrize("at", ["latest", "end", {"group": "g", "otherwise": "latest"}])
def test_a_topic_that_a_pattern_discovers_later_begins_with_its_first_record(at):
    """`latest` is for what there is when the pipeline first runs: later topics lose nothing."""
    assert begun(at, pattern="[tu]")["u"] == {0: 8}
    assert begun(at, pattern="[tu]", fold=recorded(t={0: 3})) == {"u": {0: 7}}


def test_a_group_beyond_the_end_and_a_time_to_come(monkeypatch):
    """Neither is an offset of the log: refused by name, and nothing is recorded."""
    committed = {"t": {0: 12, 1: 6}}
    answer(monkeypatch, committed=lambda *_: committed)
    answer(monkeypatch, survey=lambda *_: SEEN)
    with pytest.raises(ConfigurationError) as refused:
        begun({"group": "g"})
    assert str(refused.value) == (
        "pipeline 'p': start.group: t-1: group 'g' is at offset 6, beyond the log's end 5: it has "
        "read another topic of this name; reset the group, or give another start"
    )
    with pytest.raises(ConfigurationError, match=r"start\.timestamp: 2999-.* is in the future"):
        begun({"timestamp": "2999-01-01T00:00:00Z"})
    with pytest.raises(
        ConfigurationError, match=r"start\.timestamps: t-1: 2999-.* is in the future"
    ):
        begun({"timestamps": {**TIMES, "t": {0: AT, 1: "2999-01-01T00:00:00Z"}}})
    assert begun({"timestamp": "2999-01-01T00:00:00Z"}, fold=recorded(t={0: 3}, u={0: 7})) == {}


def test_a_group_without_offsets_is_a_notice(monkeypatch):
    """It may be a typing error; one that has read some of the topics is none."""
    said = []
    begun({"group": "g"}, said=said)
    assert said == []
    answer(monkeypatch, committed=lambda *_: {})
    assert begun({"group": "g"}, said=said) == EARLIEST
    assert said == ["start.group: group 'g' has committed no offset of t, u: begins at earliest"]


def test_a_topic_that_was_recreated_does_not_begin():
    """Its adoption decides where it does."""
    fold = Fold()
    fold.apply(Origin("t", "older", {0: 0}), "digest")
    assert begun("latest", fold=fold, assign={"t": [0, 1]}) == {}
