"""A search for secrets: in files, pages, rows, and in what the kernel shows of processes.

Contents are kept until they are searched, so that secrets may become known at any time. A place
must be seen to hold the control, a text that is no secret: else nothing was looked at there.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import html
import json
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import httpx

HOLDERS = "environment of those it was given to"
SHORTEST = 8
"""Bytes of a secret: fewer would be found by chance."""
UI = (
    "jobs/", "jobs/job/?id=0", "stages/", "stages/stage/?id=0&attempt=0", "storage/",
    "environment/", "executors/", "executors/threadDump/?executorId=driver", "SQL/",
    "SQL/execution/?id=0", "metrics/json/",
)  # fmt: skip
"""Pages of Spark's UI; those of jobs and queries may not be there."""
REST = (
    "jobs", "stages?details=true", "allexecutors", "storage/rdd", "environment",
    "sql?details=true&planDescription=true&length=1000", "executors/driver/threads",
)  # fmt: skip
"""Below api/v1/applications/<id>/."""


class Hit(NamedTuple):
    """A secret that was found: never its value."""

    place: str
    where: str
    secret: str
    form: str


def forms(secret: bytes) -> dict[str, bytes]:
    """Return a secret as it may be written, by the name of each form."""
    found = {"plain": secret, "hex": secret.hex().encode(), "HEX": secret.hex().upper().encode()}
    for shift in range(3):  # within a longer text, base64 depends on what stands before
        padded = b"\0" * shift + secret
        whole = base64.b64encode(padded)[(shift * 8 + 5) // 6 : len(padded) * 8 // 6]
        found[f"base64, {shift}"] = whole
        found[f"base64 for URLs, {shift}"] = whole.translate(bytes.maketrans(b"+/", b"-_"))
    with contextlib.suppress(UnicodeDecodeError):
        text = secret.decode()
        escaped = json.dumps(text)[1:-1]
        found["JSON"] = escaped.encode()
        found["JSON in JSON"] = json.dumps(escaped)[1:-1].encode()
        found["URL"] = quote(text, safe="").encode()
        found["HTML"] = html.escape(text).encode()
        found["UTF-16"] = text.encode("utf-16-le")
    return {name: form for name, form in found.items() if name == "plain" or form != secret}


@dataclass
class Scan:
    """What is to be searched for, `secrets` by their names and the `control`, and in what.

    `allowed` names the secrets that a place may hold.
    """

    control: str
    secrets: dict[str, bytes] = field(default_factory=dict, repr=False)
    allowed: dict[str, Collection[str]] = field(default_factory=dict)
    _contents: dict[tuple[str, bytes], str] = field(default_factory=dict, repr=False)

    def add(self, **secrets: str | bytes) -> None:
        for name, secret in secrets.items():
            value = secret.encode() if isinstance(secret, str) else secret
            assert len(value) >= SHORTEST, name
            self.secrets[name] = value

    def look_at(self, place: str, where: str, content: str | bytes) -> None:
        data = content.encode(errors="replace") if isinstance(content, str) else content
        self._contents.setdefault((place, data), where)

    def look_at_tree(self, place: str, root: Path) -> None:
        """Look at all files, and at their names."""
        walk = os.walk(root)  # passes over directories that are gone, as `rglob` does not
        paths = (Path(where, name) for where, inner, files in walk for name in (*inner, *files))
        for path in sorted(paths):
            with contextlib.suppress(OSError):  # gone, or a socket
                where = str(path.relative_to(root))
                self.look_at(place, where, where)
                if path.is_file():
                    data = path.read_bytes()
                    self.look_at(place, where, gzip.decompress(data) if _is_gzip(data) else data)

    def look_at_rows(self, place: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Look at the rows of a table."""
        for number, row in enumerate(rows, start=1):
            for value in row:
                data = value if isinstance(value, bytes) else str(value)
                self.look_at(place, f"row {number}", data)

    def look_at_pages(self, place: str, url: str, paths: Collection[str]) -> None:
        """Look at pages, and the headers with them."""
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            for path in paths:
                answer = client.get(path, follow_redirects=True)
                self.look_at(place, path, f"{answer.status_code} {answer.headers}")
                self.look_at(place, path, answer.content)

    def look_at_spark(self, url: str) -> None:
        """Look at all that Spark's UI and its REST API show of a running application."""
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            (application,) = client.get("/api/v1/applications").raise_for_status().json()
            shown = f"/api/v1/applications/{application['id']}"
            for each in ("environment", "sql", "jobs"):
                client.get(f"{shown}/{each}").raise_for_status()
        self.look_at_pages("Spark's UI", url, [f"/{path}" for path in UI])
        self.look_at_pages("Spark's REST API", url, [f"{shown}/{path}" for path in REST])

    @contextlib.contextmanager
    def processes(
        self,
        is_holder: Callable[[bytes], bool],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Iterator[None]:
        """Look every 50 ms, while the block runs, at arguments and environment of all processes.

        Holders, told by their arguments, are those to whom the user gave a connection by their
        environment: it is a place of its own. (Between fork and exec a child shows that, too.)
        """
        ended = threading.Event()
        failed: list[Exception] = []

        def sample() -> None:
            seen: set[tuple[str, bytes]] = set()
            try:
                while not ended.wait(0.05):
                    self._look_at_processes(is_holder, seen)
                    meanwhile()
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=sample, name="secret-scan")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        if failed:
            raise failed[0]

    def _look_at_processes(
        self, is_holder: Callable[[bytes], bool], seen: set[tuple[str, bytes]]
    ) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # gone, or another user's
                argv = (process / "cmdline").read_bytes()
                if not argv or (process.name, argv) in seen:
                    continue
                where = f"{process.name} {(process / 'comm').read_text().strip()}"
                self.look_at("command lines", where, argv)
                environ = (process / "environ").read_bytes()
                if not environ:  # it has not begun, or is over
                    continue
                if (process / "cmdline").read_bytes() != argv:  # it became another program
                    continue
                seen.add((process.name, argv))
                self.look_at(HOLDERS if is_holder(argv) else "environment", where, environ)

    def hits(self) -> list[Hit]:
        """Return all secrets that were found where they may not be, up to now."""
        looked_at = self._contents.copy()  # processes are looked at meanwhile
        return sorted(
            Hit(place, where.replace(needle.decode(errors="replace"), "…"), name, form)
            for name, secret in self.secrets.items()
            for form, needle in forms(secret).items()
            for (place, content), where in looked_at.items()
            if needle in content and name not in self.allowed.get(place, ())
        )

    def places(self) -> dict[str, tuple[int, int, int]]:
        """Return for each place how many contents it had, how many bytes, how many controls."""
        found: dict[str, tuple[int, int, int]] = {}
        for place, content in self._contents.copy():
            count, size, controls = found.get(place, (0, 0, 0))
            control = self.control.encode() in content
            found[place] = (count + 1, size + len(content), controls + control)
        return found

    def report(self, hits: Collection[Hit]) -> str:
        """Return the list of places, with what was looked at and how many secrets were found."""
        lines = [f"secrets: {', '.join(sorted(self.secrets))}"]
        for place, (count, size, controls) in sorted(self.places().items()):
            found = sum(hit.place == place for hit in hits)
            lines.append(
                f"{place}: {count} contents, {size:,} bytes, the control in {controls}: {found}"
            )
        return "\n".join(lines)

    def nothing_found(self, *, seen: Collection[str]) -> None:
        """Assert that no secret is anywhere, and that these places were really looked at."""
        hits = self.hits()
        print(self.report(hits))
        assert not hits, "\n".join(map(str, hits[:50]))
        found = {place for place, (*_, controls) in self.places().items() if controls}
        assert not (missing := set(seen) - found), f"{missing}: the control is not there"


def key_secrets(pem: str) -> dict[str, bytes]:
    """Return what a private key is found by: lines of its PEM, and bytes of its DER."""
    lines = [line for line in pem.splitlines() if line and not line.startswith("-")]
    der = base64.b64decode("".join(lines))
    middle = len(der) // 2
    named = {f"key, line {n}": lines[n].encode() for n in (1, len(lines) // 2, -2)}
    return named | {"key": der[middle : middle + 24]}


def keytab_secrets(keytab: Path) -> dict[str, bytes]:
    """Return the ends of a keytab's keys; the last four bytes of an entry are a key's version."""
    data, at = keytab.read_bytes(), 2
    found: dict[str, bytes] = {}
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        found[f"Kerberos key {len(found)}"] = data[end - 12 : end - 4]
        at = end
    return found


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def _is_gzip(data: bytes) -> bool:
    return data.startswith(b"\x1f\x8b")


def secrets_of(settings: Mapping[str, str]) -> dict[str, bytes]:
    """Return the passwords among the options of Java's client, and a login that holds one."""
    return {
        name: value.encode()
        for name, value in settings.items()
        if name.endswith("password") or re.search("(password|Secret)=", value)
    }
