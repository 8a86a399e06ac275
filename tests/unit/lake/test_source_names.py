"""Names below a source's root: a bad one excludes its own file by name, and stops no other."""

import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import obstore
import pytest
from obstore.store import from_url

from tidegate.core.source_root import Root
from tidegate.errors import SourceUnavailable
from tidegate.lake import sources
from tidegate.lake.sources import Listing
from tidegate.lake.store import STORES


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def listed(path: object) -> Listing:
    return sources.list_source(STORES.source(Root.of(str(path))), settle=0)


def names(listing: Listing) -> list[str]:
    return [file.name for file in listing.files]


def excluded(listing: Listing) -> dict[str, str]:
    return {each.file: each.reason for each in listing.left_out}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a\n.csv", "a\\n.csv"),
        (b"\x01.csv", "\\x01.csv"),
        (b"\x7f.csv", "\\x7f.csv"),
        (b"\xff.csv", "\\xff.csv"),
        (b"d\xffd/a.csv", "d\\xffd/"),
        (b"d\t/a.csv", "d\\t/"),
    ],
)
def test_a_name_that_cannot_be_used_is_excluded(tmp_path: Path, name: bytes, shown: str) -> None:
    """Control characters and bytes that are not UTF-8, of files and directories: named in a form
    that can be printed; the other files are there.
    """
    fill(tmp_path, "good.csv")
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    found = listed(tmp_path)
    assert names(found) == ["good.csv"]
    assert list(excluded(found)) == [shown]
    "".join((shown, *excluded(found).values())).encode()


def test_links_within_the_root_are_followed_and_loops_are_excluded(tmp_path: Path) -> None:
    """Loops of one link, to a directory above, and through two directories; links to nothing are
    no files.
    """
    fill(tmp_path, "a/a.csv", "b/b.csv")
    (tmp_path / "file").symlink_to("a/a.csv")
    (tmp_path / "directory").symlink_to("a")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "b/x").symlink_to("../c")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/y").symlink_to("../b")
    found = listed(tmp_path)
    assert names(found) == [
        "a/a.csv", "b/b.csv", "c/y/b.csv", "directory/a.csv", "file",
    ]  # fmt: skip
    loop = "a loop of symbolic links"
    assert excluded(found) == dict.fromkeys(
        ["self", "a/up", "b/x/y", "c/y/x", "directory/up"], loop
    )


def test_a_link_that_leaves_the_root_is_refused(tmp_path: Path) -> None:
    """To a file or a directory, directly or over another link: nothing outside is read. The root
    itself may be a link.
    """
    outside = tmp_path / "outside"
    fill(outside, "secret.csv", "d/secret.csv")
    root = tmp_path / "root"
    fill(root, "good.csv")
    (root / "file.csv").symlink_to(outside / "secret.csv")
    (root / "directory").symlink_to(outside)
    (root / "twice.csv").symlink_to("file.csv")
    (root / "beside").symlink_to("../root-beside")
    fill(tmp_path / "root-beside", "x.csv")
    (tmp_path / "link").symlink_to(root)
    for path in (root, tmp_path / "link"):
        found = listed(path)
        assert names(found) == ["good.csv"]
        assert set(excluded(found)) == {"file.csv", "directory", "twice.csv", "beside"}
        assert excluded(found)["file.csv"] == (
            f"a symbolic link that leaves the source's root, to {outside / 'secret.csv'}"
        )


def test_a_link_that_cannot_be_followed_stops_no_other_file(tmp_path: Path) -> None:
    """Through a regular file it is a link to nothing; to a name that is too long, it is excluded by
    name if it matches.
    """
    fill(tmp_path, "a.csv")
    for name in ("b.csv", "notes.txt"):
        (tmp_path / name).symlink_to("a.csv/x")
        (tmp_path / f"long-{name}").symlink_to("n" * 300)
    found = listed(tmp_path / "*.csv")
    assert names(found) == ["a.csv"]
    assert list(excluded(found)) == ["long-b.csv"]
    assert "too long" in excluded(found)["long-b.csv"]


def test_an_error_of_the_disk_at_a_file_that_does_not_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no reason to retry; at a file that matches it is."""
    fill(tmp_path, "a.csv", "b.txt")
    scan = os.scandir

    class Entry:
        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.entry, self.name = entry, entry.name

        def stat(self) -> os.stat_result:
            if self.name == "b.txt":
                raise OSError(5, "Input/output error")
            return self.entry.stat()

        def is_symlink(self) -> bool:
            return False

    @contextmanager
    def fails(path: str) -> Iterator[Iterator[Entry]]:
        with scan(path) as entries:
            yield map(Entry, entries)

    monkeypatch.setattr(os, "scandir", fails)
    assert names(listed(tmp_path / "*.csv")) == ["a.csv"]
    with pytest.raises(SourceUnavailable, match="Input/output error"):
        listed(tmp_path)


def test_only_what_the_pattern_asks_for_is_excluded(tmp_path: Path) -> None:
    """Bad names that would not be sent are not reported; nor are hidden ones."""
    fill(tmp_path, "a.csv", ".hidden/b.csv", "d/e/f.csv", "lost+found/x.csv")
    (tmp_path / "b\n.txt").touch()
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / ".hidden/loop").symlink_to(".")
    (tmp_path / "d/loop").symlink_to("..")
    os.mkfifo(tmp_path / "pipe.csv")
    for pattern, found, left_out in (
        ("*.csv", ["a.csv"], []),
        ("*/*/*.csv", ["d/e/f.csv"], ["d/loop", "loop"]),
        ("d/**", ["e/f.csv"], ["loop"]),
        ("**/*.csv", ["a.csv", "d/e/f.csv"], ["d/loop", "loop"]),
    ):
        listing = listed(f"{tmp_path}/{pattern}")
        assert (names(listing), sorted(excluded(listing))) == (found, left_out), pattern


def test_a_directory_that_cannot_be_read_now_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the disk is no reason to take its files for gone; what may not be read is."""
    fill(tmp_path, "a.csv", "d/b.csv")
    scan = os.scandir
    error: OSError = OSError(5, "Input/output error")

    def fails(path: str) -> object:
        if str(path).endswith("/d"):
            raise error
        return scan(path)

    monkeypatch.setattr(os, "scandir", fails)
    with pytest.raises(SourceUnavailable, match="Input/output error"):
        listed(tmp_path)
    error = PermissionError(13, "Permission denied")
    found = listed(tmp_path)
    assert (names(found), excluded(found)) == (
        ["a.csv"], {"d/": "may not be listed: Permission denied"},
    )  # fmt: skip


def test_a_file_is_known_by_what_it_was_known_by(tmp_path: Path) -> None:
    """Names, sizes and times are those of obstore's listing; its etags hold the inode, too."""
    fill(tmp_path, "a", "d/ü b%20", "e")
    os.utime(tmp_path / "e", (0, -5.5))
    theirs = {
        each["path"]: (each["size"], (each["e_tag"] or "").strip('"').partition("-")[2])
        for batch in obstore.list(from_url(f"file://{tmp_path}"))
        for each in batch
    }
    assert {f.name: (f.size, f.etag) for f in listed(tmp_path).files} == theirs


KEYS = {
    "in/a.csv": 1,
    "in/b/c.csv": 2,
    "in/": 0,
    "in/b/": 0,
    "in/folder/": 3,
    "in/d_$folder$": 0,
    "in//e.csv": 4,
    "in/f//g.csv": 5,
    "in/h\n.csv": 6,
    "in/\x01.csv": 7,
    "in/_hidden/i.csv": 8,
    "in/k%20l ü.csv": 9,
}


class FakeS3(http.server.BaseHTTPRequestHandler):
    """Lists KEYS, three a page."""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        prefix = query.get("prefix", [""])[0]
        keys = sorted(key for key in KEYS if key.startswith(prefix))
        start = int(query.get("continuation-token", ["0"])[0])
        more = start + 3 < len(keys)
        shown = "".join(
            f"<Contents><Key>{quote(key)}</Key><Size>{KEYS[key]}</Size><ETag>&quot;e&quot;</ETag>"
            "<LastModified>2026-03-14T00:00:00.000Z</LastModified></Contents>"
            for key in keys[start : start + 3]
        )
        token = f"<NextContinuationToken>{start + 3}</NextContinuationToken>" if more else ""
        body = (
            f"<ListBucketResult><Name>bucket</Name><EncodingType>url</EncodingType>{token}"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{shown}</ListBucketResult>"
        ).encode()
        if "/bucket" not in self.path:
            body = b"<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>"
        self.send_response(200 if "/bucket" in self.path else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def fake_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeS3) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        yield
        server.shutdown()


def test_keys_that_are_no_file_names(fake_s3: None) -> None:
    """Markers of folders are skipped, empty parts and control characters excluded by name."""
    found = listed("s3://bucket/in")
    assert [(f.name, f.size, f.etag) for f in found.files] == [
        ("a.csv", 1, "e"), ("b/c.csv", 2, "e"), ("k%20l ü.csv", 9, "e"),
    ]  # fmt: skip
    assert set(excluded(found)) == {
        "/e.csv", "f//g.csv", "folder/", "h\\n.csv", "\\x01.csv",
    }  # fmt: skip
    assert names(listed("s3://bucket/in/**/*.csv")) == ["a.csv", "b/c.csv", "k%20l ü.csv"]
    assert names(listed("s3://bucket/in/b")) == ["c.csv"]
    settled = sources.list_source(
        STORES.source(Root.of("s3://bucket/in")),
        settle=60,
        now=datetime(2026, 3, 14, 0, 0, 59, tzinfo=UTC),
    )
    assert (settled.files, len(settled.young)) == ((), 3)


def test_a_bucket_that_cannot_be_listed(fake_s3: None) -> None:
    with pytest.raises(SourceUnavailable, match="s3://other/in cannot be listed"):
        listed("s3://other/in")
