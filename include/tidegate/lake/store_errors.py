"""Errors of file systems and object stores, as Tidegate's own."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, UnauthenticatedError
from obstore.exceptions import PermissionDeniedError as StorePermissionDenied

from tidegate.core.locations import find_scheme
from tidegate.core.wording import one_line
from tidegate.errors import (
    ConfigurationError,
    LakeDamaged,
    LakeReadOnly,
    LakeUnavailable,
    TidegateError,
)

# In texts, since the errors of a listing, and of asking for a token, have no classes.
_REFUSED = (
    *(" 401 Unauthorized", " 403 Forbidden", "(code: 401)", "(code: 403)"),
    *("invalid_grant", "invalid_client", "unauthorized_client"),
)
_MOST = 16 << 20
"""Bytes of one request: obstore gives up one whose answer takes longer than 30 seconds."""
_NO_BUCKET = ("NoSuchBucket", "bucket does not exist", "ContainerNotFound")


def is_refusal(error: BaseException) -> bool:
    """Return whether a store, or who gives its tokens, has refused: a retry does not help."""
    by_class = PermissionError | StorePermissionDenied | UnauthenticatedError
    return isinstance(error, by_class) or any(said in str(error) for said in _REFUSED)


@contextmanager
def as_lake_errors(url: str, *, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise LakeReadOnly for what is not permitted, LakeUnavailable for what a retry may solve.

    ConfigurationError for a bucket that does not exist. AlreadyExistsError and NotFoundError of
    obstore pass through, and errors of the types `but`.
    """
    try:
        yield
    except but:
        raise
    except (PermissionError, StorePermissionDenied) as error:
        raise _not_permitted(url, error) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise LakeReadOnly(f"lake {url}: the file system is read-only") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise LakeUnavailable(
                f"lake {url}: no space left; free some, then run again: nothing was lost"
            ) from error
        raise LakeUnavailable(f"lake {url}: {one_line(error)}") from error
    except BaseError as error:
        if isinstance(error, AlreadyExistsError | NotFoundError):
            raise
        if is_refusal(error):
            raise _not_permitted(url, error) from error
        if any(said in str(error) for said in _NO_BUCKET):
            raise without_bucket(url, error) from error
        raise LakeUnavailable(f"lake {url}: {one_line(error)}") from error


class Reader(io.RawIOBase):
    """A file for random reads, each of them within `errors()`: PyArrow passes such errors on.

    What PyArrow itself makes of a damaged file is another error.
    """

    def __init__(self, file: Any, errors: Callable[[], AbstractContextManager[None]]) -> None:
        self._file, self._errors = file, errors

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        with self._errors():
            return int(self._file.seek(offset, whence))

    def readinto(self, buffer: Any, /) -> int:
        with self._errors():
            data = self._file.read(min(len(buffer), _MOST))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if hasattr(self._file, "close"):
            self._file.close()
        super().close()


@contextmanager
def as_damage(uri: str) -> Iterator[None]:
    """Raise LakeDamaged for an object that must be there and is not."""
    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise LakeDamaged(f"{uri} is missing, and a commit names it; restore it") from error


def refuse_another_size(uri: str, size: int, expected: int) -> None:
    """Raise LakeDamaged if an object has another size than its commit says."""
    if size != expected:
        raise LakeDamaged(
            f"{uri} has {size} bytes, and a commit names it with {expected}; restore it"
        )


def without_bucket(url: str, error: Exception) -> TidegateError:
    """Return the error of a bucket that does not exist, if the store has named it; a proxy, or who
    gives tokens, says 404, too.
    """
    if any(said in str(error) for said in _NO_BUCKET):
        return ConfigurationError(f"lake {url}: the bucket does not exist: {one_line(error)}")
    return LakeUnavailable(f"lake {url}: {one_line(error)}")


def _not_permitted(url: str, error: Exception) -> LakeReadOnly:
    scheme = find_scheme(url)
    advice = scheme.access if scheme else "give this user write access"
    return LakeReadOnly(f"lake {url}: not permitted: {one_line(error)}; {advice}")
