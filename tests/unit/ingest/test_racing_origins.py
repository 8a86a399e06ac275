"""Two first runs with `start: latest` plan at once, while the log grows between their surveys."""

from pathlib import Path

import pytest

from support import ingest_world
from support.ingest_steps import ingest, plan
from support.ingest_world import World, ranges
from tidegate.core.cursor import Watermarks
from tidegate.ingest import drafting
from tidegate.runs.run import Run


@pytest.mark.parametrize("quick", [100, 130])
def test_the_first_origin_counts_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: int
) -> None:
    """Nothing behind it is lost or read twice: the loser surveys and drafts again, and does not
    take an origin above its first survey for a truncated log.
    """
    world: World = ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 100, 100)})
    world.settings = {"start": "latest"}
    surveyed = drafting.survey_topics

    def slowly(run: Run, *topics: object) -> object:
        """Let another run survey and plan after this run's survey and before its draft."""
        monkeypatch.setattr(drafting, "survey_topics", surveyed)
        seen = surveyed(run, *topics)
        world.marks[0] = Watermarks(0, quick, quick)
        assert not plan(world.run("quick")).plan.has_work
        world.marks[0] = Watermarks(0, 140, 140)
        return seen

    monkeypatch.setattr(drafting, "survey_topics", slowly)
    planned = plan(world.run("slow")).plan
    assert planned.left_out == ()
    assert [str(r) for window in planned.chunks for r in window] == [f"t-0 [{quick}, 140)"]
    assert list(world.ledger.fold.origins.values()) == [{0: quick}]
    world.marks[0] = Watermarks(0, 150, 150)
    ingest(world.run("slow"), world.submit())
    ingest(world.run("next"), world.submit())
    assert world.rows == {0: ranges((quick, 150))}
