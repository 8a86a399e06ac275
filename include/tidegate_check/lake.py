"""Check a pipeline's directory in a lake against docs/internals/storage.md.

    python include/tidegate_check/lake.py LAKE/PIPELINE [--json]

Imports nothing of Tidegate. LAKE is a directory, or s3://, gs:// or abfss://…, with the keys of the
environment. The pipeline must be at rest. Exit code: 0 no difference, 3 differences, 2 wrong use.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict, namedtuple
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

# --- The format: names, documents, columns. Little else here depends on it. --------------------

LOG, PLANS, RUNS = "_tidegate/log/", "_tidegate/plans/", "_tidegate/runs/"
PLACED, CHECKPOINTS = "_tidegate/placed/", "_tidegate/checkpoints/"
MANIFESTS, STAGING = "_tidegate/manifests/", "_tidegate/staging/"
QUARANTINE, DATA, FORMAT = "_tidegate/quarantine/", "data/", 2
COLUMNS = ["key", "value", "partition", "offset", "timestamp", "timestampType", "headers"]
UNFIT, FIELD = "_undecodable", re.compile(r"(\w+)\((\w+)\)")
MALFORMED = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)

Key = tuple[str, int]  # topic id and partition
Form = Mapping[str, Any]


def entry_path(n: int) -> str:
    return f"{LOG}{n:020d}.json"


def canonical(form: Any) -> bytes:
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def by_key(form: Form, topic_ids: Form) -> dict[Key, Any]:
    """Return {topic: {partition: value}} by topic id and partition."""
    return {(topic_ids[t], int(p)): value for t, ps in form.items() for p, value in ps.items()}


def of_rows(transform: str, values: Any) -> set[str]:
    """Return the directories of the values of a column."""
    found, is_date = set[str](), pa.types.is_date(values.type)
    if not pa.types.is_null(values.type) and (is_date or transform != "identity"):
        values = values.cast(pa.int32() if is_date else pa.int64())
    for value in values.unique().to_pylist():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if value is None:
            found.add("__HIVE_DEFAULT_PARTITION__")
        elif transform == "identity" and not is_date:
            is_plain = re.fullmatch(r"(?!__HIVE| )[A-Za-z0-9_. -]{1,40}(?<! )", text)
            found.add(text if is_plain else f"~{sha256(text.encode())[:32]}")
        else:
            day, rest = (value, 0) if is_date else divmod(value, 86_400_000_000)
            if 0 < (n := day + date(1970, 1, 1).toordinal()) <= date.max.toordinal():
                parts = f"{date.fromordinal(n)}-{rest // 3_600_000_000:02d}"
                found.add(parts[: {"month": 7, "hour": 13}.get(transform, 10)])
            else:  # a year that readers may not know
                found.add("__HIVE_DEFAULT_PARTITION__")
    return found


class Commit(NamedTuple):
    """A commit's entry. `ranges` has [start, end, rows, invisible] by topic id and partition."""

    n: int
    plan: str
    chunk: int
    attempt: str
    form: Form
    topic_ids: Form
    ranges: dict[Key, list[int]]
    is_replay: bool

    @classmethod
    def of(cls, n: int, form: Form) -> Commit:
        ids = {topic: each["topic_id"] for topic, each in form["topics"].items()}
        ranges = by_key({t: each["ranges"] for t, each in form["topics"].items()}, ids)
        named = form["plan"]["id"], form["chunk"], form["attempt"]
        return cls(n, *named, form, ids, ranges, form["lane"] == "replay")

    def replaced(self) -> Iterator[tuple[int, Key, int, int]]:
        """Yield the parts of commits that it replaces."""
        for part in self.form["replaces"]:
            for key, spans in by_key(part["ranges"], self.topic_ids).items():
                for start, end in spans:
                    yield part["commit"], key, start, end


class Stored:
    """The objects of a pipeline in a directory or a bucket."""

    def __init__(self, place: str, files: Any = None) -> None:
        kind, _, root = place.rpartition("://")
        if kind == "s3":
            self._fs = fs.S3FileSystem(endpoint_override=os.environ.get("AWS_ENDPOINT_URL"))
        elif kind == "abfss":
            container, account, path = re.split(r"@([^.]*)[^/]*", root, maxsplit=1)
            key, root = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"), container + path
            self._fs = files or fs.AzureFileSystem(account, key)
        else:
            self._fs = files or (fs.GcsFileSystem() if kind == "gs" else fs.LocalFileSystem())
        is_local = kind in ("", "file")
        self._root = (os.path.realpath(root) if is_local else root).rstrip("/") + "/"

    def sizes(self) -> dict[str, int]:
        everything = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        found = self._fs.get_file_info(everything)
        files = [info for info in found if info.type == fs.FileType.File]
        return {info.path.removeprefix(self._root): info.size for info in files}

    def open(self, path: str) -> Any:
        return self._fs.open_input_file(self._root + path)


Spans = list[tuple[int, int]]  # sorted, disjoint, half-open


def union(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: Spans = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def within(spans: Spans, start: int, end: int) -> Spans:
    return [(max(s, start), min(e, end)) for s, e in spans if s < end and start < e]


def minus(spans: Spans, start: int, end: int) -> Spans:
    return union(part for s, e in spans for part in ((s, min(e, start)), (max(s, end), e)))


def plus(spans: Spans, start: int, end: int) -> Spans:
    if spans and spans[-1][1] == start:  # nearly always. The rest would be quadratic
        spans[-1] = spans[-1][0], end
        return spans
    return union([*spans, (start, end)])


Difference = namedtuple("Difference", ("name", "where", "what"))
"""What contradicts the format: its name, the object, the values."""


class Checker:
    """One check of one pipeline: `run` returns the differences."""

    def __init__(self, stored: Any) -> None:
        self.stored = stored
        self.sizes: dict[str, int] = stored.sizes()
        self.differences: list[Difference] = []
        self.n, self.rows, self.files = 0, 0, 0
        self.topic_ids: dict[str, str] = {}
        self.origins: dict[str, dict[int, int]] = {}
        self.covered: dict[Key, Spans] = defaultdict(list)
        self.skipped: dict[Key, Spans] = defaultdict(list)
        self.gaps: list[Form] = []
        self.commits: dict[int, Commit] = {}
        self.live: dict[int, dict[Key, Spans]] = {}
        self.replaced: dict[int, dict[Key, Spans]] = defaultdict(lambda: defaultdict(list))
        self.committed: dict[tuple[str, int], int] = {}
        self.abandoned: set[tuple[str, int, str]] = set()
        self.claims: dict[str, dict[str, Any]] = {}
        self.target_ends: dict[str, dict[str, int]] = defaultdict(dict)
        self.sent: dict[str, str] = {}
        self.claim_of: dict[int, dict[str, Any]] = {}
        self.plans: dict[str, dict[str, Any] | None] = {}
        self.final: dict[str, tuple[Commit, Form]] = {}  # by path under data/
        self.unfit: dict[str, int] = {}  # rows with UNFIT, by the same path
        self.holes: dict[tuple[int, Key], int] = {}
        self.holders: dict[Key, list[tuple[int, int, int]]] = defaultdict(list)  # start, end, n

    def run(self) -> list[Difference]:
        self.check_ledger()
        for commit in self.commits.values():
            with self.guarded(entry_path(commit.n)):
                self.check_commit(commit)
        self.check_tiles()
        placed = self.numbered(PLACED)
        for n in sorted(placed - self.commits.keys()):
            self.add("placed", f"{PLACED}{n:020d}", "there is no such commit")
        self.check_files(placed)
        self.check_data(placed)
        for path in self.sizes:  # the plans of runs that have committed nothing, too
            if path.startswith(RUNS) and (pointer := self.document(path)):
                with self.guarded(path):
                    self.plan(pointer["plan_id"])
        return self.differences

    def add(self, name: str, where: str, what: object) -> None:
        self.differences.append(Difference(name, where, str(what)[:600]))

    def same(self, name: str, where: str, **pairs: tuple[Any, Any]) -> None:
        """Add a difference for each pair of a value found and the one expected that differ."""
        for what, (found, expected) in pairs.items():
            if found != expected:
                self.add(name, where, f"{what}: {found!r:.250}, expected {expected!r:.250}")

    @contextmanager
    def guarded(self, where: str, name: str = "malformed") -> Iterator[None]:
        """Make what cannot be read a difference."""
        try:
            yield
        except (*MALFORMED, OSError, pa.ArrowException) as error:
            self.add(name, where, repr(error))

    def numbered(self, directory: str, ending: str = "") -> set[int]:
        names = (p.removeprefix(directory) for p in self.sizes if p.startswith(directory))
        return {int(m[1]) for name in names if (m := re.fullmatch(rf"(\d{{20}}){ending}", name))}

    def read(self, path: str) -> bytes:
        return bytes(self.stored.open(path).read())

    def document(self, path: str, *, is_canonical: bool = True) -> dict[str, Any] | None:
        """Return a JSON document. None, and a difference, if it is missing or malformed."""
        if path not in self.sizes:
            self.add("missing", path, "there is no such object")
            return None
        form: dict[str, Any] | None = None
        with self.guarded(path):
            data = self.read(path)
            form = dict(json.loads(data))
            self.same("malformed", path, format=(form["format"], FORMAT))
            if is_canonical and data != canonical(form):
                self.add("malformed", path, "not canonical JSON")
        return form

    def plan(self, plan_id: str) -> dict[str, Any] | None:
        if plan_id not in self.plans:
            path = f"{PLANS}{plan_id}.json"
            self.plans[plan_id] = form = self.document(path)
            if form is not None:
                self.same("plan", path, id=(sha256(canonical(form))[:16], plan_id))
        return self.plans[plan_id]

    def check_ledger(self) -> None:
        """The chain of entries, and which may follow which."""
        checkpoints = self.numbered(CHECKPOINTS, r"\.json")
        digest = ""
        for n in range(1, max([0, *self.numbered(LOG, r"\.json"), *checkpoints]) + 1):
            path = entry_path(n)
            form = self.document(path)
            if form is None:
                return  # what follows cannot be judged
            self.n = n
            with self.guarded(path):
                self.same("chain", path, n=(form["n"], n), previous=(form["previous"], digest))
                self.apply(n, path, form)
            digest = sha256(self.read(path))
            if n in checkpoints:
                self.check_checkpoint(n, digest)
        if not self.n and any(p.startswith(MANIFESTS) for p in self.sizes):
            self.add("missing", LOG, "attempts have manifests, and there is no entry")

    def apply(self, n: int, where: str, form: dict[str, Any]) -> None:
        match form["kind"]:
            case "origin":
                self.apply_origin(where, form)
            case "commit":
                self.apply_commit(where, Commit.of(n, form))
            case "gap":
                key, start, end = (form["topic_id"], form["partition"]), form["start"], form["end"]
                if start >= end or within(self.covered[key] + self.skipped[key], start, end):
                    self.add("gap", where, f"[{start}, {end}) is empty, or seen in part")
                self.gaps.append(form)
                self.skipped[key] = plus(self.skipped[key], start, end)
            case "abandon":
                attempt = form["plan"], form["chunk"], form["attempt"]
                m = self.committed.get(attempt[:2], 0)
                if m in self.live and self.commits[m].attempt == attempt[2]:
                    self.add("abandon", where, f"the attempt is committed as entry {m}")
                self.abandoned.add(attempt)
            case "claim":
                self.apply_claim(where, form)
            case "release":
                claim = self.claims.pop(form["plan"])
                self.same("release", where, attempt=(form["attempt"], claim["attempt"]))
                self.abandoned.add((form["plan"], 0, claim["attempt"]))
                if form["how"] == "declare sent":
                    self.declare_sent(claim)
                elif form["how"] == "nothing sent" and any(
                    f"{MANIFESTS}{plan}-{chunk}-{attempt}.json" in self.sizes
                    for plan, chunk, attempt in self.abandoned
                    if plan == form["plan"]
                ):
                    self.add("release", where, "an attempt of the plan has sent all of it")
            case kind:
                self.add("malformed", where, f"kind {kind!r}")

    def apply_origin(self, where: str, form: Form) -> None:
        topic, topic_id, adopts = form["topic"], form["topic_id"], form.get("adopts")
        known = self.topic_ids.get(topic, topic_id)
        self.same("origin", where, id=(known, adopts["topic_id"] if adopts else topic_id))
        self.topic_ids[topic] = topic_id
        origins = self.origins.setdefault(topic_id, {})
        partitions = {int(p): offset for p, offset in form["partitions"].items()}
        if not adopts and origins.keys() & partitions.keys():
            self.add("origin", where, f"of {sorted(origins.keys() & partitions.keys())} again")
        origins |= {p: offset for p, offset in partitions.items() if p not in origins}

    def apply_commit(self, where: str, commit: Commit) -> None:
        chunk = commit.plan, commit.chunk
        if chunk in self.committed:
            self.add("chunk-twice", where, f"entry {self.committed[chunk]} commits this chunk")
        if (*chunk, commit.attempt) in self.abandoned:
            self.add("abandoned", where, f"attempt {commit.attempt} was abandoned")
        for key, (start, end, rows, invisible) in commit.ranges.items():
            if end - start != rows + invisible or min(rows, invisible) < 0:
                self.add("account", where, f"{key}: [{start}, {end}) {rows} + {invisible}")
            if commit.is_replay:
                continue
            if overlap := within(self.covered[key], start, end):
                self.add("overlap", where, f"{key}: {overlap} was committed before")
            self.covered[key] = plus(self.covered[key], start, end)
            self.skipped[key] = minus(self.skipped[key], start, end)
        self.replace(where, commit)
        self.live[commit.n] = {key: [(r[0], r[1])] for key, r in commit.ranges.items()}
        self.commits[commit.n], self.committed[chunk] = commit, commit.n
        if commit.form["receipts"] or commit.plan in self.claims:  # of an egress
            claim = self.claim_of[commit.n] = self.claims.pop(commit.plan)
            self.same("claim", where, attempt=(commit.attempt, claim["attempt"]))
            self.send(claim)
        for r in commit.form["receipts"]:
            self.target_ends[r["topic"]][str(r["partition"])] = r["after"]

    def replace(self, where: str, commit: Commit) -> None:
        """Replaced ranges must be live in the commits named, and together be the new ones."""
        left = {key: [(r[0], r[1])] for key, r in commit.ranges.items()}
        parts = list(commit.replaced())
        for m, key, start, end in parts:
            for what, spans in (f"live in {m}", self.live.get(m, {})), ("its own", left):
                if within(spans.get(key, []), start, end) != [(start, end)]:
                    self.add("replaces", where, f"{key} [{start}, {end}) is not {what}")
                spans[key] = minus(spans.get(key, []), start, end)
            self.replaced[m][key] = plus(self.replaced[m][key], start, end)
            if not any(self.live.get(m, {}).values()):
                self.live.pop(m, None)
                del self.replaced[m]
        if parts and any(left.values()):
            self.add("replaces", where, f"{left} replaces nothing")

    def apply_claim(self, where: str, form: dict[str, Any]) -> None:
        plan = form["plan"]
        if (plan, 0) in self.committed:
            self.add("claim", where, f"plan {plan} is committed")
        if earlier := self.claims.get(plan):
            self.same("claim", where, supersedes=(form["supersedes"], earlier["attempt"]))
            self.abandoned.add((plan, 0, earlier["attempt"]))
            form = {**form, "target": earlier["target"]}
        live = [each for each in (form, *self.claims.values()) if each["lane"] != "replay"]
        names = {f["name"] for f in form["files"]} if form in live else set()
        for other in live:
            if other["plan"] == plan:
                continue
            if names & {f["name"] for f in other["files"]}:
                self.add("claim", where, f"plan {other['plan']} has claimed a file of it")
            if both := {key for key, *_ in ranges_of(form)} & {key for key, *_ in ranges_of(other)}:
                self.add("claim", where, f"plan {other['plan']} sends of {sorted(both)}")
        for key, start, end in ranges_of(form) if not earlier else ():
            if within(self.covered[key] + self.skipped[key], start, end):
                self.add("claim", where, f"{key} [{start}, {end}) was sent in part before")
        if form["lane"] == "resend":  # with other content
            names = {f["name"] for f in form["files"] if self.sent.get(f["name"]) == f["etag"]}
        if again := names & self.sent.keys():
            self.add("claim", where, f"{sorted(again)} were sent before")
        self.claims[plan] = form

    def send(self, claim: Form) -> None:
        if claim["lane"] != "replay":
            self.sent |= {f["name"]: f["etag"] for f in claim["files"]}

    def declare_sent(self, claim: Form) -> None:
        self.send(claim)
        for key, start, end in ranges_of(claim):
            self.covered[key] = plus(self.covered[key], start, end)
            self.skipped[key] = minus(self.skipped[key], start, end)

    def check_tiles(self) -> None:
        """Of an ingest, what was ever covered is live exactly once, and has an origin."""
        for n, parts in self.live.items():
            for key, spans in parts.items() if n not in self.claim_of else ():
                self.holders[key] += [(start, end, n) for start, end in spans]
        for key, holders in self.holders.items():
            holders.sort()
            spans = [(start, end) for start, end, _ in holders]
            covered = self.covered[key]
            if union(spans) != covered or any(a[1] > b[0] for a, b in pairwise(spans)):
                self.add("tiles", f"{key}", f"live are {spans}, covered {covered}")
            if key[1] not in self.origins.get(key[0], {}):
                self.add("origin", f"{key}", "the partition has commits, and no origin")

    def check_checkpoint(self, n: int, digest: str) -> None:
        """A checkpoint says what the entries up to it add up to."""
        path = f"{CHECKPOINTS}{n:020d}.json"
        with self.guarded(path):
            form = self.document(path) or {}
            fold, lines_path = form["fold"], form["commits"]["path"]
            live = [self.commits[m].form for m in sorted(self.live)]
            self.same(
                "checkpoint", path,
                sha256=(form["sha256"], sha256(canonical(fold))),
                last=((fold["n"], fold["digest"]), (n, digest)),
                topic_ids=(fold["topic_ids"], self.topic_ids),
                origins=({t: {int(p): o for p, o in each.items()}
                          for t, each in fold["origins"].items()}, self.origins),
                covered=(sets_of(fold["covered"]), {k: s for k, s in self.covered.items() if s}),
                skipped=(sets_of(fold["skipped"]), {k: s for k, s in self.skipped.items() if s}),
                replaced=({int(m): sets_of(r) for m, r in fold["replaced"].items()}, self.replaced),
                gaps=(fold["gaps"], like(fold["gaps"], self.gaps)),
                live=([m for s, e in fold["live"] for m in range(s, e)], sorted(self.live)),
                committed=({(p, c): m for p, c, m in fold["committed"]}, self.committed),
                abandoned=({tuple(each) for each in fold["abandoned"]}, self.abandoned),
                claims=(fold["claims"], like(fold["claims"], self.claims.values())),
                sent=(fold["sent"], self.sent),
                target_ends=(fold["target_ends"], self.target_ends),
            )  # fmt: skip
            data = self.read(lines_path)
            lines = [json.loads(line) for line in data.split(b"\n") if line]
            self.same("checkpoint", lines_path, commits=(lines, like(lines, live)))
            self.same("checkpoint", path, lines=(form["commits"]["sha256"], sha256(data)))

    def check_commit(self, commit: Commit) -> None:
        """The entry, its plan, its manifest."""
        where, form = entry_path(commit.n), commit.form
        path = f"{MANIFESTS}{commit.plan}-{commit.chunk}-{commit.attempt}.json"
        staging = f"{STAGING}{commit.plan}/{commit.chunk}/{commit.attempt}/"
        plan, manifest = self.plan(commit.plan), self.document(path)
        if not (plan and manifest):
            return
        planned = plan["chunks"][commit.chunk]
        files = planned["files"] if isinstance(planned.get("files"), list) else None
        replaces = (plan["replay"] or {}).get("replaces")
        self.same(
            "plan", where,
            sha256=(form["plan"]["sha256"], sha256(canonical(plan))),
            lane=(form["lane"], plan["lane"]),
            cluster_id=(form["cluster_id"], plan["cluster_id"]),
            ranges=({key: r[:2] for key, r in commit.ranges.items()},
                    {} if files else by_key(planned, plan["topics"])),
            replaces=(form["replaces"], [{"commit": each["commit"], "ranges": each["ranges"]}
                      for each in replaces[commit.chunk]] if replaces else []),
        )  # fmt: skip
        reference = {"path": path, "sha256": sha256(self.read(path))}
        self.same("manifest", where, reference=(form["manifest"], reference))
        named = manifest["plan_id"], manifest["chunk"], manifest["attempt"]
        self.same("manifest", path, attempt=(named, commit[1:4]))
        if plan["kind"] == "egress":
            self.check_receipts(commit, plan, files, manifest["files"])
            self.same("receipts", path, receipts=(manifest["receipts"], form["receipts"]))
            return
        accounts = by_key(manifest["partitions"], plan["topics"])
        rows = dict.fromkeys(accounts, 0)
        for f in manifest["files"]:
            for p, *_, n in f["parts"]:
                rows[plan["topics"][f["topic"]], p] += n
        self.same(
            "manifest", path,
            accounts=({k: [a["start"], a["end"], a["rows"], a["invisible"]]
                       for k, a in accounts.items()}, commit.ranges),
            rows=(rows, {k: r[2] for k, r in commit.ranges.items()}),
        )  # fmt: skip
        decode, unfit = plan["bytes"].get("decode", []), manifest.get("undecodable", {})
        how = {t: {k: v for k, v in each.items() if k != "topics"}
               for each in decode for t in each["topics"] if t in form["topics"]}  # fmt: skip
        decoded = {t: {"sha256": sha256(canonical(each)), "undecodable": unfit.get(t, {})}
                   for t, each in how.items()}  # fmt: skip
        found = {t: {k: v for k, v in each.items() if k != "beside"}
                 for t, each in form.get("decoded", {}).items()}  # fmt: skip
        self.same("decoded", where, topics=(found, decoded))
        if (path_of_done := f"{staging}_done.json") in self.sizes:
            done = self.document(path_of_done, is_canonical=False) or {}
            self.same("done", staging, rows=(done.get("rows"), sum(rows.values())))
        for f in manifest["files"]:
            staged, levels = f["path"].removeprefix(staging).split("/")[1:-1], list[str]()
            for level in plan["bytes"].get("partition_by", ["topic", "window_date"])[1:]:
                is_date = level == "window_date"
                levels.append(f"{level}={plan['window_date']}" if is_date else staged.pop(0))
            directory = f"{DATA}topic={f['topic']}/{''.join(f'{level}/' for level in levels)}part-"
            (p, first, last, _), *others = f["parts"]
            name = f"shared-{p:05d}-{first:019d}" if others else f"{p:05d}-{first:019d}-{last:019d}"
            tail = f"-{name}-{commit.plan}.parquet"
            is_ours = f["final"].startswith(directory) and f["final"].endswith(tail)
            if not is_ours or f["final"] in self.final:
                self.add("final", path, f"{f['final']}, expected once {directory}…{tail}")
            parts = {(plan["topics"][f["topic"]], p): rest for p, *rest in f["parts"]}
            by_rows = plan["bytes"].get("partition_by", [])
            known = {**f, "parts": parts, "decoded": f["topic"] in decoded, "by_rows": by_rows}
            self.final[f["final"]] = commit, known
        self.holes |= {(commit.n, key): account["holes"] for key, account in accounts.items()}

    def holders_of(self, own: int, f: Form) -> set[int | None]:
        """Return the live commits of a file's parts, or None: one, if its `own` is among them."""
        found = set[int | None]()
        for key, (first, *_) in f["parts"].items():
            at = bisect_right(self.holders[key], (first, sys.maxsize)) - 1
            start, end, n = self.holders[key][at] if at >= 0 else (0, 0, None)
            found.add(n if start <= first < end else None)
        if own in found:
            self.same("torn", f["final"], commits=(len(found), 1))
        return found

    def check_files(self, placed: set[int]) -> None:
        """Their offsets are exactly those of the ranges without the recorded holes."""
        live = [(c, f) for c, f in self.final.values() if c.n in self.holders_of(c.n, f)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda each: self.offsets(each[1], each[0].n in placed), live))
        self.files, self.rows = len(live), sum(len(o) for each in found for o in each.values())
        offsets: dict[tuple[int, Key], list[int]] = defaultdict(list)
        unfit: dict[int, list[int | None]] = defaultdict(list)
        for c, f in self.final.values():
            unfit[c.n].append(self.unfit.get(f["final"]))  # None of a file that was not read
        for n, counts in unfit.items():
            said = self.commits[n].form.get("decoded", {}).values()
            rows = sum(sum(topic["undecodable"].values()) for topic in said)
            if None not in counts:
                self.same("decoded", entry_path(n), undecodable=(rows, sum(n or 0 for n in counts)))
        for (commit, _), of_file in zip(live, found, strict=True):
            for key, each in of_file.items():
                offsets[commit.n, key] += each
        for n, parts in self.live.items():
            for key, spans in parts.items() if n not in self.claim_of else ():
                start, end, rows, _ = self.commits[n].ranges[key]
                if spans != [(start, end)] or (n, key) not in self.holes:
                    continue  # replaced in part; or a difference of its documents is known
                here = sorted(offsets[n, key])
                gaps = sum(b - a > 1 for a, b in pairwise([start - 1, *here, end]))
                self.same(
                    "offsets", f"{entry_path(n)} {key}",
                    rows=(len(set(here)), rows), holes=(gaps, self.holes[n, key]),
                    outside=([o for o in here if not start <= o < end], []),
                )  # fmt: skip

    def offsets(self, f: Form, is_placed: bool) -> dict[Key, list[int]]:
        """Return the offsets in a live file by its parts. All of it is read."""
        at = f["final"] if is_placed or f["final"] in self.sizes else f["path"]
        size = self.sizes.get(at)
        if size is None or size != f["size"]:
            self.add("file", at, f"{'missing' if size is None else size}, expected {f['size']}")
            return {}
        offsets: dict[Key, list[int]] = {key: [] for key in f["parts"]}
        with self.guarded(at, "file"), self.stored.open(at) as file:
            file.seek(size - 8)
            file.seek(size - 8 - int.from_bytes(file.read(4), "little"))
            self.same("file", at, footer=(sha256(file.read()), f["digest"]))
            file.seek(0)
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            names, n = parquet.schema_arrow.names, len(COLUMNS)
            added = [UNFIT] if f["decoded"] else []
            self.same("file", at, columns=(names[:n] + names[n:][-1:], COLUMNS + added))
            (topic_id, _), *_ = f["parts"]
            order, unfit = list[int](), 0  # `order` of the partitions
            levels = dict(each.split("=") for each in f["final"].split("/")[1:-1])
            fields = [each for each in map(FIELD.fullmatch, f["by_rows"]) if each]
            for batch in parquet.iter_batches():  # of all columns: each page has a checksum
                for transform, column in (each.groups() for each in fields):
                    name = f"{column}_{'value' if transform == 'identity' else transform}"
                    values = batch[column] if column in names else pa.nulls(len(batch))
                    if strange := of_rows(transform, values) - {levels.get(name)}:
                        self.add("directory", at, f"{name}: rows of {sorted(strange)[:3]}")
                if f["decoded"]:
                    unfit += len(batch) - batch[UNFIT].null_count
                both = (batch[name].to_pylist() for name in ("partition", "offset"))
                for p, offset in zip(*both, strict=True):
                    order += [p] if order[-1:] != [p] else []
                    offsets[topic_id, p].append(offset)
            found = {key: [min(each), max(each), len(each)] for key, each in offsets.items()}
            self.same("rows", at, parts=(found, f["parts"]))
            if any(len(set(each)) < len(each) for each in offsets.values()):
                self.add("rows", at, "an offset occurs twice")
            in_order = all(a < b for each in offsets.values() for a, b in pairwise(each))
            ascending = in_order and len(set(order)) == len(order)
            self.same("rows", at, ascending=(ascending, f["ascending"]))
            self.unfit[f["final"]] = unfit
        return offsets

    def check_data(self, placed: set[int]) -> None:
        """Under data/ lie files of live commits, and those that one still replaces, or keeps."""
        unplaced, cleared = self.commits.keys() - placed, self.numbered(PLACED, r"\.cleared")
        keep = [c for c in self.commits.values() if "keep_replaced" in c.form if c.n not in cleared]
        kept = [(*part[:2], range(*part[2:])) for c in keep for part in c.replaced()]
        for path in (path for path in self.sizes if path.startswith(DATA)):
            commit, f = self.final.get(path, (None, {}))
            if commit is None:
                self.add("unknown", path, "no commit lists this file")
                continue
            key, (first, *_) = next(iter(f["parts"].items()))
            is_kept = any(k[:2] == (commit.n, key) and first in k[2] for k in kept)
            holders = self.holders_of(commit.n, f)
            if not holders & {commit.n, *unplaced} and not is_kept:
                self.add("not-live", path, f"of commits {sorted(map(str, holders))} now")

    def check_receipts(
        self, commit: Commit, plan: Form, files: list[Form] | None, sent: list[Form]
    ) -> None:
        """What an egress has sent, against its plan and its claim."""
        where, receipts = entry_path(commit.n), commit.form["receipts"]
        claim = self.claim_of.get(commit.n, {"target": {}})
        before = {(t, int(p)): end for t, ps in claim["target"].items() for p, end in ps.items()}
        self.same(
            "receipts", where,
            partitions=(before.keys() - {(r["topic"], r["partition"]) for r in receipts}, set()),
            rows=(sum(r["sent"] for r in receipts), sum(f["rows"] for f in sent)),
        )  # fmt: skip
        for r in receipts:
            self.same(
                "receipts", f"{where} {r['topic']}-{r['partition']}",
                topic_id=(r["topic_id"], plan["target"][r["topic"]]["topic_id"]),
                before=(r["before"], before.get((r["topic"], r["partition"]), 0)),
                room=(r["sent"] + r["duplicates"] <= r["after"] - r["before"], True),
            )  # fmt: skip
        rows = {f["file"]: f["rows"] + f["bad"] for f in sent}
        if files:
            known = {f["name"]: f["rows"] for f in files if f["rows"] is not None}
            of_plan = sorted((f["name"], f["size"], f["etag"]) for f in files)
            listed = [(f["file"], f["size"], f["etag"]) for f in sent]
            self.same("receipts", where, files=(listed, of_plan))
            rows = {name: n for name, n in rows.items() if name in known}
        else:
            known = {f"{key[0]}/{key[1]}": r[2] for key, r in commit.ranges.items() if r[2]}
        self.same("receipts", where, planned=(+Counter(rows), +Counter(known)))
        kept = f"{QUARANTINE}{commit.plan}/{commit.attempt}/"
        bad = [p for p in self.sizes if p.startswith(kept) and p.endswith(".parquet")]
        n = sum(pq.read_metadata(self.stored.open(path)).num_rows for path in bad)
        self.same("quarantine", where, rows=(n, sum(f["bad"] for f in sent)))


def ranges_of(claim: Form) -> Iterator[tuple[Key, int, int]]:
    for each in claim["topics"].values() if claim["lane"] != "replay" else ():
        yield from (((each["topic_id"], int(p)), *r) for p, r in each["ranges"].items())


def sets_of(form: Form) -> dict[Key, Spans]:
    spans = {(topic_id, int(p)): each for topic_id, ps in form.items() for p, each in ps.items()}
    return {key: [(start, end) for start, end in each] for key, each in spans.items() if each}


def like(found: list[Form], forms: Iterable[Form]) -> list[Form]:
    """Return forms with the keys of those found."""
    pairs = zip_longest(found, forms, fillvalue=dict[str, Any]())
    return [{k: form.get(k) for k in keys or form} for keys, form in pairs]


def main(arguments: list[str] | None = None) -> int:
    """Check one pipeline's directory. Print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("place", metavar="LAKE/PIPELINE")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args(arguments)
    checker = Checker(Stored(options.place))
    if not any(path.startswith(("_tidegate/", DATA)) for path in checker.sizes):
        print(f"{options.place}: there is no pipeline of a lake here", file=sys.stderr)
        return 2
    found = checker.run()
    counts: Form = {"entries": checker.n, "commits": len(checker.commits)}
    counts = {**counts, "files": checker.files, "rows": checker.rows, "differences": len(found)}
    if options.json:
        counts = {"format": 1, **counts, "differences": [each._asdict() for each in found]}
        print(json.dumps(counts, indent=2))
    else:
        for each in found:
            print(f"{each.name:<12} {each.where}: {each.what}")
        print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return 3 if found else 0


if __name__ == "__main__":
    sys.exit(main())
