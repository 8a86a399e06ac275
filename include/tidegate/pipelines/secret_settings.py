"""Secrets among Spark settings: settings are command-line arguments, which all users can see."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|jaas|token|credential$|^sig(nature)?$"
    r"|(access|account|api|encryption|private|session|shared|signing)[._-]?key(?!provider|[._-]?id)",
    re.IGNORECASE,
)
# The name of a setting that says where a secret is, or of what kind it is.
_NO_SECRET = re.compile(
    r"(provider|path|file|location|type|class|mechanism|enabled|endpoint|length|regex)$",
    re.IGNORECASE,
)
# Java options, JAAS, JSON, and the query of a URL.
_WITHIN = re.compile(r"""([\w.\-]+)\s*(?:=|["']\s*:)\s*["']?([^\s"';&]+)""")
_LOGIN_IN_URL = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def secret_settings(conf: Mapping[str, str]) -> list[str]:
    """Return the names of the settings that hold a secret, by their names or within their values.

    What names a file, a provider or a kind is none, nor are a switch and a key of AWS's key store.
    """
    return sorted(name for name, value in conf.items() if _is_secret(name, value))


def complaint(names: list[str]) -> str:
    """Return what is wrong with secrets in these settings, and where they belong."""
    return (
        f"spark.conf: {', '.join(names)}: a secret here would show in the process list;"
        " give it to Spark by its environment, a credentials provider or spark-defaults.conf"
    )


def has_login(url: str) -> bool:
    """Say whether a URL holds a user's password."""
    return bool(_LOGIN_IN_URL.search(url))


def _is_secret(name: str, value: str) -> bool:
    if _named_secret(name) and value and value not in ("true", "false"):
        return not value.startswith("arn:")
    return has_login(value) or any(_named_secret(inner) for inner, _ in _WITHIN.findall(value))


def _named_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)
