"""A bucket in memory. Each request goes through the gate of the process that makes it.

A gate decides what becomes of a request. A process that has ended makes no request any more,
whatever its `finally` clauses try.
"""

import io
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from tidegate.errors import LakeDamaged, LakeUnavailable
from tidegate.lake.store_protocol import Listed

URL = "memory://lake/"
Request = Callable[[], Any]


class Crash(BaseException):
    """The process has ended: no handler of errors runs in it."""


class Gate:
    """Let every request pass, and note them; `ended` once the process has made its last one."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.ended = False

    def __call__(self, kind: str, path: str, request: Request) -> Any:
        if self.ended:
            raise Crash
        self.requests.append((kind, path))
        return self.passes(kind, path, request)

    def passes(self, kind: str, path: str, request: Request) -> Any:  # noqa: ARG002
        return request()


class Fault(Gate):
    """Let request `at`, from 0, fail; one that is to be carried out later is kept in `late`.

    `crash` ends the process after the request. To end it before a request is to end it after the
    last one that has changed anything.
    """

    def __init__(self, at: int, mode: str) -> None:
        super().__init__()
        self.at, self.mode = at, mode
        self.late: Request = lambda: None

    def passes(self, kind: str, path: str, request: Request) -> Any:
        if len(self.requests) - 1 != self.at:
            return request()
        if self.mode == "late" and kind != "send":  # a record that lands late is sent twice: stated
            self.late = request
        elif self.mode != "error before":
            request()
        if self.mode.startswith("error"):
            raise LakeUnavailable(f"{kind} {path}: planted")
        self.ended = True
        raise Crash


class Objects:
    """The objects of a lake by path, each with the time at which it was written.

    `gate` is that of the process which asks: of a thread, if it has one of its own.
    """

    def __init__(self, given: "Objects | None" = None) -> None:
        self.content: dict[str, bytes] = dict(given.content) if given else {}
        self.written: dict[str, float] = dict(given.written) if given else {}
        self.gate: Gate = Gate()
        self.own = threading.local()

    def ask(self, kind: str, path: str, request: Request) -> Any:
        return getattr(self.own, "gate", self.gate)(kind, path, request)

    def put(self, path: str, data: bytes) -> None:
        self.content[path], self.written[path] = data, time.time()

    def age(self, seconds: float) -> None:
        """Make everything that much older."""
        self.written = {path: at - seconds for path, at in self.written.items()}

    def below(self, root: str) -> dict[str, bytes]:
        return {p[len(root) :]: d for p, d in self.content.items() if p.startswith(root)}


class Handle:
    """What Tidegate has of one pipeline's objects: `tidegate.lake.store_protocol.Store`."""

    is_shared_by_nodes = True

    def __init__(self, objects: Objects, pipeline: str) -> None:
        self.url, self._root = URL + pipeline, f"{pipeline}/"
        self._objects, self._content = objects, objects.content

    def _ask(self, kind: str, path: str, request: Callable[[str], Any]) -> Any:
        if ".." in path.split("/"):
            raise ValueError(path)
        path = self._root + path
        return self._objects.ask(kind, path, lambda: request(path))

    def create(self, path: str, data: bytes) -> bool:
        def request(path: str) -> bool:
            if path not in self._content:
                self._objects.put(path, data)
            return self._content[path] == data

        return bool(self._ask("create", path, request))

    def write(self, path: str, data: bytes) -> None:
        """Put an object as Spark does."""
        self._ask("write", path, lambda path: self._objects.put(path, data))

    def get(self, path: str) -> bytes | None:
        found: bytes | None = self._ask("get", path, self._content.get)
        return found

    def open(self, path: str) -> IO[bytes]:
        if (data := self.get(path)) is None:
            raise LakeUnavailable(f"{path}: no such object")
        return io.BytesIO(data)

    def read(self, path: str, start: int, end: int) -> bytes:
        return self.open(path).read()[start:end]

    def objects(self, prefix: str) -> list[Listed]:
        found = self._ask("list", prefix, self._objects.below)
        return sorted(Listed(prefix + name, len(data)) for name, data in found.items())

    def names(self, directory: str, *, after: str = "") -> list[str]:
        listed = (each.path.removeprefix(directory) for each in self.objects(directory))
        return [name for name in listed if "/" not in name and name > after]

    def size(self, path: str) -> int | None:
        data = self._ask("head", path, self._content.get)
        return None if data is None else len(data)

    def modified(self, path: str) -> float | None:
        found: float | None = self._ask("head", path, lambda path: self._objects.written.get(path))
        return found

    def place(self, source: str, target: str, size: int) -> None:
        def copy(path: str) -> None:
            if (data := self._content.get(self._root + source)) is None:
                raise LakeDamaged(f"{source} is missing")
            self._objects.put(path, data)

        if (there := self.size(target)) is None:
            self._ask("copy", target, copy)
        elif there != size:
            raise LakeDamaged(f"{target} has {there} bytes, not {size}")

    def delete(self, *paths: str) -> None:
        for path in paths:
            self._ask("delete", path, lambda path: self._content.pop(path, None))

    def check_placing(self, files: Any) -> None:
        for source, _, _ in files:  # asks no gate: a fault of its own would show nothing new
            if self._root + source not in self._content:
                raise LakeDamaged(f"{source} is missing")

    def check_writing(self) -> None:
        pass

    def each(self, request: Callable[[Any], Any], items: Any) -> Any:
        return map(request, items)

    def make_durable(self, paths: list[str]) -> None:
        pass

    def prune(self, prefix: str) -> None:
        pass

    def uri(self, path: str) -> str:
        return f"{self.url}/{path}"

    native = uri


class Whole:
    """A pipeline's objects for the checker, which asks no gate."""

    def __init__(self, objects: Objects, pipeline: str) -> None:
        self._files = objects.below(f"{pipeline}/")

    def sizes(self) -> dict[str, int]:
        return {path: len(data) for path, data in self._files.items()}

    def open(self, path: str) -> IO[bytes]:
        return io.BytesIO(self._files[path])
