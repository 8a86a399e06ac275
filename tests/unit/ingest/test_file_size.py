"""How many records go into a file: measured by topic, sampled where nothing was measured."""

from types import SimpleNamespace

import pytest

from support.kafka_answers import answer
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.files import LakeFile, Part
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.errors import LakeDamaged
from tidegate.ingest import file_size
from tidegate.lake import attempts
from tidegate.lake.store import LocalStore

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
MIB = 1024 * 1024


def chunks(*ranges):
    return (tuple(OffsetRange(topic, 0, 0, records) for topic, records in ranges),)


@pytest.fixture
def decide(tmp_path, monkeypatch):
    """Decide for chunks: `files` are topic → (rows, bytes) of the newest commit, `sample` the mean
    size that the broker tells; with the ranges that were sampled.
    """

    def decide(windows, *, files=None, sample=None, size=256 * MIB):
        asked = []

        def sampled(_, ranges, __):
            asked.extend(r.topic for r in ranges)
            return sample

        def manifest(*_):
            if files == "lost":
                raise LakeDamaged("the manifest is missing")
            listed = [
                LakeFile(topic, (Part(0, 0, rows - 1, rows),), True, size, "d", "x", "y")
                for topic, (rows, size) in files.items()
            ]
            return SimpleNamespace(files=listed)

        answer(monkeypatch, mean_size=sampled)
        monkeypatch.setattr(attempts, "committed_manifest", manifest)
        fold = Fold() if files is None else Fold(live={3: "commit"})
        store = LocalStore(tmp_path)
        return file_size.records_per_file(
            store, fold, KAFKA, windows, "read_committed", size
        ), asked

    return decide


@pytest.mark.parametrize(
    ("sample", "most"),
    [(100, 1_000_000), (10_000, 16_384), (MIB, 256), (10 * MIB, 16), (None, 131_072)],
)
def test_the_first_commit_goes_by_a_sample(decide, sample, most):
    """Files of at most 256 MiB, however large the records are; a guess where none could be read."""
    number, asked = decide(chunks(("t", 5_000_000)), sample=sample)
    assert (number, asked) == (most, ["t"])
    if sample:
        assert number * sample <= 256 * MIB


def test_few_records_need_no_sample(decide):
    """256 of a broker's default limit are one file: no question is asked."""
    assert decide(chunks(("t", 256))) == (1_000_000, [])


def test_a_topic_goes_by_its_own_files(decide):
    """Many small rows of one topic hide nothing of the large ones of another."""
    files = {"small": (2_000_000, 200 * MIB), "large": (300, 300 * MIB)}
    both = chunks(("small", 5_000_000), ("large", 5_000_000))
    assert decide(both, files=files) == (256, [])
    assert decide(chunks(("small", 5_000_000)), files=files) == (2_097_152, [])


def test_what_the_newest_commit_does_not_tell_is_sampled(decide):
    """Another topic, too few bytes of it, or a list of files that is lost: no reason to fail."""
    known = {"t": (1_000_000, 100 * MIB), "u": (10, 1000)}
    both = chunks(("t", 5_000_000), ("u", 5_000_000), ("v", 300))
    assert decide(both, files=known, sample=MIB) == (256, ["u", "v"])
    assert decide(chunks(("t", 999)), files="lost", sample=MIB) == (256, ["t"])


def test_the_longest_ranges_are_sampled(decide):
    """Sixteen at most, whatever the number of topics."""
    many = chunks(*((f"t{i:02d}", 1000 + i) for i in range(40)))
    _, asked = decide(many, sample=100)
    assert asked == [f"t{i:02d}" for i in range(39, 23, -1)]
