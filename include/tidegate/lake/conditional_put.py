"""The conditional put (`If-None-Match: *`): create an object if it is absent, through obstore.

The ledger, plans and seals rest on it. A directory has its own: `LocalStore.create`.
"""

from __future__ import annotations

import obstore
import tenacity
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import ObjectStore as Obstore

from tidegate.lake.store_errors import is_refusal


class _Conflict(BaseError):
    """The store refused to create an object that does not exist."""


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(_Conflict),
    stop=tenacity.stop_after_attempt(10),
    wait=tenacity.wait_random_exponential(multiplier=0.1, max=3),
    reraise=True,
)
def create_object(store: Obstore, path: str, data: bytes) -> bool:
    """Create an object. Return whether the object then has these bytes.

    obstore raises AlreadyExistsError for two answers of S3: 412, the object exists, and 409
    (ConditionalRequestConflict), another request for this key was in progress and may have failed.
    Only the object itself tells which one it was. A put whose answer was lost may have landed: the
    retry then finds its own bytes.
    """
    try:
        _put(store, path, data)
        return True
    except AlreadyExistsError:
        there = get(store, path)
        if there is None:
            raise _Conflict(
                f"{path} could not be created: the store reports a conflicting request, and there "
                "is no such object; try again"
            ) from None
        return there == data


def get(store: Obstore, path: str) -> bytes | None:
    """Return an object's bytes, or None if it does not exist."""
    try:
        return bytes(obstore.get(store, path).bytes())
    except (NotFoundError, FileNotFoundError):
        return None


@tenacity.retry(
    retry=tenacity.retry_if_exception(
        lambda e: (
            isinstance(e, BaseError)
            and not isinstance(e, AlreadyExistsError | NotFoundError)
            and not is_refusal(e)
        )
    ),
    stop=tenacity.stop_after_attempt(4),
    wait=tenacity.wait_exponential(multiplier=0.2),
    reraise=True,
)
def _put(store: Obstore, path: str, data: bytes) -> None:
    obstore.put(store, path, data, mode="create")
