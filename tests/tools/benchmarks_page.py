"""Print docs/benchmarks.md from the results in tests/bench/results; with `--svg`, its figure."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "bench/results"
TIDEGATE, SPARK, BY_HAND = "Tidegate", "plain Spark", "confluent-kafka and pyarrow"
Runs = Sequence[Mapping[str, float]]
WIDTH, BAR, LABELS = 900, 16, 330  # pixels

INTRODUCTION = """\
# Benchmarks

`make bench` measures both directions on your machine, in about 35 minutes; `make bench-against \
REF=<commit>` compares this tree with a commit. Contenders take turns (A B C C B A …), each from a \
cold start to its end, with a warm page cache. Every result is compared, by partition, with what \
an independent client reads: the number of rows, the first and the last offset, and a sum of \
hashes. A result that differs ends the run.

- **Tidegate**: `tidegate run`. It includes plan, check and commit; of an egress, also the proof \
that each record is in the target.
- **Plain Spark**: a script of one statement under `spark-submit`, with Spark's defaults and \
`read_committed`. It keeps no offsets and proves nothing.
- **confluent-kafka**: a program by hand, without a JVM: a consumer that writes with pyarrow, or a \
producer. It keeps no offsets and proves nothing.

"""
EGRESS = """\
## Lake and files to Kafka

Into 4 partitions. A lake of at least 100,000 records is proven by the counts of the brokers; \
files are read back ([proofs](guarantees.md)).

"""
MEMORY = """\
## Memory

`tests/bench/bench_memory.py` fails if the heap of the driver (1 GB) after a collection, or the \
command itself, is over {heap} MB in any case. `local[*]` on two cores, default settings:

"""
END = """\

With Spark's own settings ten chunks peaked at 358 MB, and 100 chunks of 10,000 records ran out of \
memory at the 30th. RSS is what the JVM has taken of its 1 GB, garbage included. Why: \
[large backlogs](how-to/past-data.md#large-backlogs). Requests to S3: \
[requests per run](how-to/s3.md#requests-per-run).
"""


def text() -> str:
    """Return the page in Markdown."""
    found = json.loads((RESULTS / "bench.json").read_text())
    ingest = {name: each for name, each in found.items() if not name.startswith("W9")}
    egress = {name: each for name, each in found.items() if name.startswith("W9")}
    return "".join(
        [
            INTRODUCTION,
            *_machine(found),
            "![Median seconds of each contender](img/benchmarks.svg)\n\n",
            "## Kafka to the lake\n\nPartitions: 8, where nothing else is said.\n\n",
            *_table(ingest),
            *_break_even(found),
            *_further_chunk(found),
            "\n",
            EGRESS,
            *_table(egress),
            "\n",
            *_memory(),
            END,
        ]
    )


def svg() -> str:
    """Return the figure: a bar for each contender's median, a line for its quartiles."""
    found = json.loads((RESULTS / "bench.json").read_text())
    rows = [
        (each["title"] if not n else "", name, runs)
        for each in found.values()
        for n, (name, runs) in enumerate(each["repetitions"].items())
    ]
    longest = max(_quartiles(runs)[1] for _, _, runs in rows)
    scale = (WIDTH - LABELS - 60) / longest
    lines, y = [], 10
    for title, name, runs in rows:
        if title:
            y += 26
            lines.append(f'<text x="10" y="{y - 6}" font-weight="bold">{escape(title)}</text>')
        median, (low, high) = _median(runs), _quartiles(runs)
        colour = "#1f6f8b" if name.startswith(TIDEGATE) else "#b8b8b8"
        middle = y + BAR / 2 - 1
        lines += [
            f'<text x="{LABELS - 8}" y="{y + BAR - 4}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABELS}" y="{y}" width="{median * scale:.1f}" height="{BAR - 2}"'
            f' fill="{colour}"/>',
            f'<line x1="{LABELS + low * scale:.1f}" x2="{LABELS + high * scale:.1f}"'
            f' y1="{middle}" y2="{middle}" stroke="black"/>',
            f'<text x="{LABELS + max(median, high) * scale + 6:.1f}" y="{y + BAR - 4}">'
            f"{median:.1f} s</text>",
        ]
        y += BAR
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{y + 10}" fill="white"/>',
            *lines,
            "</svg>\n",
        ]
    )


def _machine(found: Mapping[str, Any]) -> Iterator[str]:
    each = next(iter(found.values()))
    versions = each["versions"]
    repetitions = sorted({len(runs) for e in found.values() for runs in e["repetitions"].values()})
    yield (
        "Medians, with the quartiles in brackets, of "
        f"{' to '.join(map(str, dict.fromkeys((repetitions[0], repetitions[-1]))))} repetitions on "
        f"a shared machine with {each['machine']['cpus']} cores, the broker beside the contenders: "
        f"Python {versions['python']}, {versions['java'].split()[0]} "
        f"{versions['java'].split()[2].strip(chr(34))}, Spark {versions['pyspark']}. Raw numbers: "
        "[bench.json](../tests/bench/results/bench.json), "
        "[memory.json](../tests/bench/results/memory.json).\n\n"
    )


def _table(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| Workload | Contender | Seconds | CPU seconds | Tidegate is |\n|---|---|---|---|---|\n"
    for each in found.values():
        first, *_ = each["repetitions"].values()
        for n, (name, runs) in enumerate(each["repetitions"].items()):
            low, high = _quartiles(runs)
            times = _times(runs, first, ours=name.startswith(TIDEGATE))
            yield (
                f"| {each['title'] if not n else ''} | {name} | {_median(runs):.2f} "
                f"({low:.2f} to {high:.2f}) | {_median(runs, 'cpu'):.1f} | "
                f"{times if n else ''} |\n"
            )


def _times(runs: Runs, first: Runs, *, ours: bool) -> str:
    times = _median(runs) / _median(first)
    if ours:
        return f"{times:.2f} times the time"
    return f"{times:.1f} times as fast" + (": slower" if round(times, 1) < 1 else "")


def _further_chunk(found: Mapping[str, Any]) -> Iterator[str]:
    if "W5-chunks" in found:
        one, many = found["W5-chunks"]["repetitions"].items()
        number = int(many[0].split()[1])
        seconds = (_median(many[1]) - _median(one[1])) / (number - 1)
        yield f"\nEach further chunk of a run takes {seconds:.2f} s.\n"


def _break_even(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield from which number of records Tidegate is faster than the program by hand."""
    if not {"W5-small", "W1-300B"} <= found.keys():
        return
    larger = "W1-10M" if "W1-10M" in found else "W1-300B"
    sizes = {"W5-small": 1_000, "W1-300B": 2_000_000, "W1-10M": 10_000_000}
    lines = []
    for name in (TIDEGATE, BY_HAND):
        small, large = (_median(found[w]["repetitions"][name]) for w in ("W5-small", larger))
        each = (large - small) / (sizes[larger] - sizes["W5-small"])
        lines.append((small - each * sizes["W5-small"], each))
    (start, each), (by_hand, each_by_hand) = lines
    if each >= each_by_hand:
        said = "it is slower at each size that was measured"
    else:
        records = (start - by_hand) / (each_by_hand - each)
        beyond = "" if records < sizes[larger] else ", which was not measured"
        said = f"by these, it is faster from {records / 1e6:.1f} million records{beyond}"
    yield (
        f"\nAgainst one process by hand, by the lines through 1,000 and {sizes[larger]:,} records "
        f"of 300 bytes: Tidegate takes {start:.1f} s and {each * 1e6:.2f} s a million records, the "
        f"program {by_hand:.1f} s and {each_by_hand * 1e6:.2f} s; {said}.\n"
    )


def _memory() -> Iterator[str]:
    sys.path.insert(0, str(RESULTS.parent))
    import bench_memory

    yield MEMORY.format(heap=bench_memory.HEAP_MB)
    yield (
        "| Work | Records | Bytes per record | Heap after a collection, peak | RSS of the JVM, "
        "peak | RSS of the command, peak | Seconds |\n|---|---|---|---|---|---|---|\n"
    )
    for name, each in json.loads((RESULTS / "memory.json").read_text())["results"].items():
        yield (
            f"| {name} | {each['records']:,} | {each['size']:,} | {each['heap_mb']} MB | "
            f"{each['rss_mb']:,} MB | {each['python_mb']} MB | {each['seconds']:.0f} |\n"
        )


def _median(runs: Runs, what: str = "seconds") -> float:
    return statistics.median(run[what] for run in runs)


def _quartiles(runs: Runs) -> tuple[float, float]:
    seconds = [run["seconds"] for run in runs]
    low, _, high = statistics.quantiles(seconds, n=4) if seconds[1:] else seconds * 3
    return low, high


if __name__ == "__main__":
    print(svg() if "--svg" in sys.argv else text(), end="")
