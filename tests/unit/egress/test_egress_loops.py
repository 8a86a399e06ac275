"""Pipelines that lead from a target back into its own source are refused."""

import json
from typing import Any

import pytest

from support.egress_world import (
    World,
)
from tidegate.core import layout
from tidegate.core.entries import Commit, Origin, Reference
from tidegate.egress import pipeline_cycles
from tidegate.egress.pipeline_cycles import notices_of_path, refuse_loop
from tidegate.errors import (
    ConfigurationError,
)
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import STORES, open_store
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, parse_spec


@pytest.mark.parametrize(
    ("source", "lake", "loops"),
    [
        ({"lake": "back"}, "/lake", True),
        ({"lake": "back", "topics": ["other"]}, "/lake", False),
        ({"lake": "pattern"}, "/lake", True),
        ({"lake": "pattern", "topics": ["u"]}, "/lake", False),
        ({"path": "/lake/back", "format": "parquet"}, "/lake", True),
        ({"path": "/lake/back/data/**/*.parquet", "format": "parquet"}, "file:///lake/", True),
        ({"path": "/lake", "format": "parquet"}, "/lake", True),
        ({"path": "/lake/*/data/**", "format": "parquet"}, "/lake", True),
        ({"path": "/lake/backs", "format": "parquet"}, "/lake", False),
        ({"path": "/lake/back", "format": "parquet"}, "s3://b/lake", False),
    ],
)
def test_a_loop_is_refused(world: World, source: Any, lake: str, loops: bool) -> None:
    """Into a topic that feeds the source, by its name or by any path to its lake."""
    (world.home / "pipelines/back.yaml").write_text(
        json.dumps({"name": "back", "kind": "ingest", "topics": ["t", "other"], "lake": lake})
    )
    (world.home / "pipelines/broken.yaml").write_text("{")
    (world.home / "pipelines/pattern.yaml").write_text(
        json.dumps({"name": "pattern", "kind": "ingest", "pattern": "t|u", "lake": "/of/patterns"})
    )
    world.settings = {"source": source}
    fed = parse_spec({**world.spec.model_dump(), "source": source})
    assert isinstance(fed, Egress)
    if not loops:
        refuse_loop(fed, "cluster", STORES, pipeline_files)
        return
    with pytest.raises(ConfigurationError, match=r"t feeds the lake of '(back|pattern)'"):
        refuse_loop(fed, "cluster", STORES, pipeline_files)


@pytest.mark.parametrize(
    ("topic", "cluster", "loops"),
    [("t", "cluster", True), ("t", "another", False), ("u", "cluster", False)],
)
@pytest.mark.parametrize("level", ["window_date=2026-03-14/", "at_day=2026-03-14/x_value=1/", ""])
def test_a_path_into_a_lake_of_unknown_pipelines(
    world: World, topic: str, cluster: str, loops: bool, level: str
) -> None:
    """Its ledger has what it reads; without a loop a notice names `source.lake`."""
    lake = world.home / "far away"
    store = open_store(str(lake), "their")
    for entry in (
        Origin(topic, "id", {0: 0}),
        Commit("live", "p", "", 0, "a", cluster, {}, {}, Reference("m", "")),
    ):
        assert isinstance(Ledger(store, "their").append(entry, run="r"), Appended)
    source = {"path": str(lake), "format": "parquet"}
    spec = parse_spec({**world.spec.model_dump(), "source": source})
    assert isinstance(spec, Egress)
    name = f"their/{layout.DATA}topic={topic}/{level}part-0.parquet"
    refuse_loop(spec, "cluster", STORES, pipeline_files)
    deep = {**source, "path": str(lake / f"their/data/topic={topic}")}
    deeper = parse_spec({**world.spec.model_dump(), "source": deep})
    assert isinstance(deeper, Egress)
    globbed = {**source, "path": str(lake / f"their/data/topic=*/{level}part-*.parquet")}
    by_glob = parse_spec({**world.spec.model_dump(), "source": globbed})
    assert isinstance(by_glob, Egress)
    if loops:
        with pytest.raises(ConfigurationError, match="t feeds the lake"):
            notices_of_path(by_glob, [name.removeprefix("their/data/")], "cluster", STORES)
    below = name.partition(f"topic={topic}/")[2]
    if loops:
        with pytest.raises(ConfigurationError, match="t feeds the lake"):
            notices_of_path(deeper, [below], "cluster", STORES)
    else:
        assert len(notices_of_path(deeper, [below], "cluster", STORES)) == 1
    if loops:
        with pytest.raises(ConfigurationError, match=r"t feeds the lake at .*their, which source"):
            notices_of_path(spec, [name], "cluster", STORES)
    else:
        (notice,) = notices_of_path(spec, [name], "cluster", STORES)
        assert "`source.lake: their` sends its rows by the ledger" in notice
    assert (
        notices_of_path(spec, ["other/data/topic=t/x.parquet", "x.parquet"], "cluster", STORES)
        == []
    )


def test_a_run_looks_for_the_lake_of_its_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it freezes a plan."""
    asked = []
    monkeypatch.setattr(
        pipeline_cycles, "notices_of_path", lambda _, names, *__: asked.append(names) or ["so"]
    )
    world.put(a="1")
    world.plan()
    assert len(asked) == 1
    assert len(asked[0]) == 1


def make_hops(world: World, **middle: Any) -> None:
    """Make pipelines `in`, which reads u, and `on`, which sends the lake of `back` to u."""
    pipelines = {
        "in": {"kind": "ingest", "topics": ["u"]},
        "back": {"kind": "ingest", "topics": ["t"]},
        "on": {"kind": "egress", "source": {"lake": "back"}, "target": {"topic": "u"}, **middle},
    }
    for name, form in pipelines.items():
        path = world.home / f"pipelines/{name}.yaml"
        path.write_text(json.dumps({"name": name, "lake": str(world.home / "of"), **form}))
    world.settings = {"source": {"lake": "in"}}


def test_a_loop_of_two_hops_is_refused(world: World) -> None:
    """t → the lake of `back` → u → the source: from either egress, with the whole way named."""
    make_hops(world)
    way = "t feeds the lake of 'back', which 'on' sends to u; it feeds the lake of 'in', which is"
    with pytest.raises(ConfigurationError, match=way):
        world.plan()
    (world.home / "pipelines/out.yaml").write_text(world.spec.model_dump_json(exclude_none=True))
    other = pipeline_files.load_named("on")
    assert isinstance(other, Egress)
    with pytest.raises(
        ConfigurationError, match="u feeds the lake of 'in', which 'out' sends to t"
    ):
        refuse_loop(other, "cluster", STORES, pipeline_files)


@pytest.mark.parametrize(
    "middle",
    [
        {"source": {"lake": "back", "topics": ["other"]}},
        {"target": {"topic": "v"}},
        {"target": {"topic": "u", "kafka": "elsewhere"}},
    ],
)
def test_hops_that_lead_elsewhere_are_no_loop(world: World, middle: Any) -> None:
    """Another topic of the lake between, another topic behind it, or one of the same name on a
    connection that is not known to lead to the same cluster.
    """
    make_hops(world, **middle)
    refuse_loop(world.spec, "cluster", STORES, pipeline_files)


@pytest.mark.parametrize(("cluster", "loops"), [("cluster", True), ("another", False)])
def test_a_hop_is_on_the_cluster_that_its_ledger_tells(
    world: World, cluster: str, loops: bool
) -> None:
    """Where the pipeline between has sent before: by its target's cluster, whatever its name."""
    make_hops(world, target={"topic": "u", "kafka": "elsewhere"})
    for name, where in (("on", cluster), ("in", "cluster")):
        store = open_store(str(world.home / "of"), name)
        entry = Commit("live", "p", "", 0, "a", where, {}, {}, Reference("m", ""))
        assert isinstance(Ledger(store, name).append(entry, run="r"), Appended)
    if loops:
        with pytest.raises(ConfigurationError, match="without end"):
            refuse_loop(world.spec, "cluster", STORES, pipeline_files)
    else:
        refuse_loop(world.spec, "cluster", STORES, pipeline_files)


def make_unreadable(world: World, lake: str, pipeline: str, how: str) -> None:
    """Make the lake of a pipeline a file, or its ledger's first entry no entry."""
    if how == "away":
        (world.home / lake).write_text("")
    else:
        entry = world.home / lake / pipeline / layout.entry(1)
        entry.parent.mkdir(parents=True)
        entry.write_text("{")


@pytest.mark.parametrize("how", ["away", "corrupt"])
@pytest.mark.parametrize("whose", ["on", "back"])
def test_an_unreadable_ledger_of_another_pipeline_is_logged(
    world: World, caplog: pytest.LogCaptureFixture, how: str, whose: str
) -> None:
    """Of a pipeline that the rows reach: they are sent, with a warning that names the ledger."""
    make_hops(world, target={"topic": "elsewhere"}, lake=str(world.home / "of_on"))
    form = {"name": "back", "kind": "ingest", "topics": ["t"], "lake": str(world.home / "of_back")}
    (world.home / "pipelines/back.yaml").write_text(json.dumps(form))
    make_unreadable(world, f"of_{whose}", whose, how)
    world.settings = {}
    world.put(a="1")
    assert world.send_and_publish()["files"] == ["a"]
    assert f"the ledger of '{whose}' cannot be read" in caplog.text


@pytest.mark.parametrize("how", ["away", "corrupt"])
@pytest.mark.parametrize("whose", ["on", "back"])
def test_a_loop_is_found_where_a_ledger_cannot_be_read(world: World, how: str, whose: str) -> None:
    """By the names of the connections, which stand for the clusters."""
    make_hops(world, lake=str(world.home / "of_on"))
    form = {"name": "back", "kind": "ingest", "topics": ["t"], "lake": str(world.home / "of_back")}
    (world.home / "pipelines/back.yaml").write_text(json.dumps(form))
    make_unreadable(world, f"of_{whose}", whose, how)
    with pytest.raises(ConfigurationError, match="without end"):
        refuse_loop(world.spec, "cluster", STORES, pipeline_files)


def test_a_bad_pattern_of_another_pipeline_is_ignored(world: World) -> None:
    """Neither a source that is none, nor a lake's directory that looks like one."""
    make_hops(world, source={"path": "/in/[9-0]*", "format": "text"})
    form = {"name": "back", "kind": "ingest", "topics": ["t"], "lake": "/lakes/[9-0]"}
    (world.home / "pipelines/back.yaml").write_text(json.dumps(form))
    world.settings = {}
    world.put(a="1")
    assert world.send_and_publish()["files"] == ["a"]


def test_the_projects_pipelines_are_no_loop() -> None:
    """Whatever this project ships."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TIDEGATE_LAKE", "/lake")
        for name in pipeline_files.pipeline_names():
            spec = pipeline_files.load_named(name)
            if isinstance(spec, Egress):
                refuse_loop(spec, "cluster", STORES, pipeline_files)
