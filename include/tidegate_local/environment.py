"""The local stack in the environment of a command, or of a program that uses the Python API."""

from __future__ import annotations

import os

from tidegate_local import proxies
from tidegate_local.home import default_home, state_file


def hint(message: str) -> str | None:
    """Return what to do about an error that names the local stack's broker, if it is down."""
    from tidegate_local import stack
    from tidegate_local.ports import is_free

    local_stack = stack.read(default_home())
    if local_stack is None or local_stack.kafka not in message:
        return None
    if not is_free(int(local_stack.kafka.rpartition(":")[2])):
        return None  # it runs, and the connection does not fit it
    return "that is the broker of the local stack, which is not running: `tidegate local up`"


def use() -> None:
    """Set lake and connections of the local stack where the environment has none."""
    os.environ.update(proxies.without_loopback())
    if not state_file(default_home()).is_file():
        return
    from tidegate_local import stack

    if "TIDEGATE_LAKE" not in os.environ:
        stack.use_store(default_home())
    for name, value in stack.environment(default_home()).items():
        os.environ.setdefault(name, value)
