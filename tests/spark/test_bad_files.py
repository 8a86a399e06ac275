"""Many bad files among good ones: found by one application, and never again."""

import gzip
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.errors import AnalysisException

from support import topic_records
from support.egress_pipeline import EgressPipeline
from tidegate.errors import PartitionsLeftOut
from tidegate.spark.preflight import preflight

GOOD = b'{"id":1,"name":"x","p":0}\n'
WAYS = {
    "no-json": b"{'id':1}\n",
    "two-objects": GOOD.strip() + GOOD,
    "a-key-twice": b'{"id":1,"id":2,"name":"x","p":0}\n',
    "another-type": b'{"id":"one","name":"x","p":0}\n',
    "no-value": b'{"id":1,"p":0}\n',
    "too-large": b'{"id":1,"name":"%s","p":0}\n' % (b"x" * 1_100_000),
    "partition": b'{"id":1,"name":"x","p":99}\n',
    "expression": b'{"id":7,"name":"x","p":0}\n',
}
"""The second line of a file of three; a cut file and one with an odd name make it ten ways."""


def put_all(pipeline: EgressPipeline, good: int) -> set[str]:
    """Make so many good files and twenty bad ones; return the names of these."""
    for n in range(good):
        pipeline.put(f"g{n:03d}.json", GOOD * 3)
    bad = {f"{n}-{way}.json": GOOD + line + GOOD for n in "az" for way, line in WAYS.items()}
    bad |= {f"{n}-cut.json.gz": gzip.compress(GOOD * 999)[:-20] for n in "az"}
    bad |= {f"{n}-name.json._COPYING_": GOOD for n in "az"}
    for name, content in bad.items():
        pipeline.put(name, content)
    pipeline.set_source("json", columns="id BIGINT, name STRING, p INT")
    pipeline.settings |= {
        "max_files": 2_000,
        "columns": {
            "key": "if(id = 7, cast(raise_error('no') as string), 'k')",
            "value": "name",
            "partition": "p",
        },
    }
    return set(bad)


@pytest.mark.parametrize("good", [12, pytest.param(980, marks=pytest.mark.slow)])
def test_bad_in_ten_ways(pipeline: EgressPipeline, topic: str, good: int) -> None:
    """One run names all twenty and sends each row of the others once; the next starts no Spark, and
    what is mended is sent by the one after.
    """
    topic_records.create(pipeline.bootstrap, f"{topic}-1", partitions=1)
    pipeline.topic = f"{topic}-1"
    bad = put_all(pipeline, good)
    for run in ("one", "two"):
        with pytest.raises(PartitionsLeftOut) as left_out:
            pipeline.run_all(run)
        reasons = {each["file"]: each["reason"] for each in left_out.value.numbers["left_out"]}
        assert reasons.keys() == bad
        assert len(pipeline.jobs) == 2
    said = Counter(reason.partition(":")[0] for reason in reasons.values())
    assert said == {
        "row 1": 14, "cannot be read": 2, "Spark does not read it": 2,
        "an expression of `columns` or order_by fails on a row": 2,
    }  # fmt: skip
    rows = Counter(record.row[0] for record in pipeline.records())
    assert [*rows.values()] == [3] * good
    pipeline.put("a-no-json.json", GOOD)
    with pytest.raises(PartitionsLeftOut):
        pipeline.run_all("three")
    assert len(pipeline.records()) == 3 * good + 1


@pytest.mark.parametrize("columns", [{"value": "id"}, {"key": "name", "value": "id"}])
def test_files_of_csv_with_another_header(
    pipeline: EgressPipeline, columns: dict[str, str]
) -> None:
    """They are excluded beside a file that is damaged, whichever error comes first."""
    pipeline.set_source("csv")
    pipeline.settings["columns"] = columns
    pipeline.put("a.csv", "id,nme\n1,x\n")
    pipeline.put("b.csv.gz", gzip.compress(b"id,name\n" + b"1,x\n" * 999)[:-20])
    for name in "cde":
        pipeline.put(f"{name}.csv", "id,name\n1,x\n")
    with pytest.raises(PartitionsLeftOut) as left_out:
        pipeline.run_all()
    named = [each["file"] for each in left_out.value.numbers["left_out"]]
    assert named == ["a.csv", "b.csv.gz"]
    applications = len(pipeline.jobs)
    with pytest.raises(PartitionsLeftOut, match=r"a\.csv: its header is id, nme"):
        pipeline.run_all("again")
    assert len(pipeline.jobs) == applications


def test_files_without_a_header(pipeline: EgressPipeline) -> None:
    """The number of columns is the pipeline's."""
    pipeline.set_source("csv", options={"header": False})
    for name, line in (("a", "1,x,y\n"), ("b", "1,x\n"), ("c", "2,x\n")):
        pipeline.put(f"{name}.csv", line)
    with pytest.raises(
        PartitionsLeftOut, match=r"a\.csv: row 0: 3 values, and there are 2 columns"
    ):
        pipeline.run_all()
    assert pipeline.fold().egress.sent.keys() == {"b.csv", "c.csv"}


def test_a_file_that_is_gone_is_not_bad(pipeline: EgressPipeline) -> None:
    """It was deleted since it was planned: the retry plans again."""
    pipeline.set_source("text")
    for name in ("a.txt", "b.txt"):
        pipeline.put(name, "x\n")
    pipeline.run_all()
    (job,) = pipeline.jobs
    (pipeline.source / "b.txt").unlink()
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        preflight(pipeline.spark, replace(job, plan_id="other"))
