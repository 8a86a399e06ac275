"""Files of JSON are sent line by line as they stand; types are kept; old plans are refused."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq

from support.egress_pipeline import EgressPipeline
from tidegate import flows
from tidegate.egress.verify import verify


def test_json_byte_for_byte_through_a_topic_and_back(pipeline: EgressPipeline, topic: str) -> None:
    """Through a topic and a lake, whatever the other lines are; a line that is no JSON object goes
    into quarantine as it is.
    """
    odd = [
        b'{"a": 1}', b'{"a": 10.10}', b'{"a": null, "b": 1}', b'{"b":1,"a":"1"}', b'{"a":1,"a":2}',
        b'{"a":"\\u00fc\\/"}', '{"ü" :\t"😀"} '.encode(), b'{"a":12345678901234567890123456789}',
    ]  # fmt: skip
    written = {"a.json": b"\n".join(odd), "d/b.json": b"".join(line + b"\n" for line in odd[::-1])}
    for name, content in written.items():
        pipeline.put(name, content)
    pipeline.put("c.json.gz", gzip.compress(written["a.json"]))
    pipeline.put("bad.json", b'{"a":1}\n{"a": NaN}\n{"a":10.0}\n')
    pipeline.set_source("json")
    pipeline.settings["on_bad_row"] = "quarantine"
    report = pipeline.run_all("kept")
    assert (report["rows"], report["quarantined"]) == (3 * len(odd) + 2, 1)
    (kept,) = (pipeline.home / "ledger/out/_tidegate/quarantine" / report["plan_id"]).iterdir()
    (bad,) = pq.read_table(kept).to_pylist()
    assert (bad["file"], bad["row"], bad["text"]) == ("bad.json", 1, b'{"a": NaN}')
    pipeline.run_ingest(topic, "back")
    files = (pipeline.home / "lake/lake/data").rglob("*.parquet")
    found = pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)
    lines: dict[str, dict[int, bytes]] = {}
    for row in found.to_pylist():
        of = {header["key"]: header["value"].decode() for header in row["headers"]}
        _, index, number, _ = of["tidegate"].split(":")
        name = pipeline.jobs[-1].source.names[int(index)]
        lines.setdefault(name, {})[int(number)] = row["value"]
    there = {name: b"\n".join(line for _, line in sorted(of.items())) for name, of in lines.items()}
    assert there == {
        "a.json": written["a.json"], "d/b.json": written["d/b.json"].removesuffix(b"\n"),
        "c.json.gz": written["a.json"], "bad.json": b'{"a":1}\n{"a":10.0}',
    }  # fmt: skip
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert found.differences == 0
