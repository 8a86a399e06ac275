"""Secrets among Spark settings: settings are command-line arguments, which all users can see."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|(?<!by)pass(?![a-z])|pwd|(?<![a-z])pw(?![a-z])"
    r"|jaas|token|(?<!google_application_)credentials?$|^sig(nature)?$"
    r"|(access|account|api|encryption|private|session|shared|signing)[._-]?key(?!provider|[._-]?id)",
    re.IGNORECASE,
)
# The name of a setting that says where a secret is, or of what kind it is.
_NO_SECRET = re.compile(
    r"(provider|path|(?<!pro)file|location|type|class|mechanism|enabled|endpoint|length|regex"
    r"|algorithm|bits|interval|lifetime)$",
    re.IGNORECASE,
)
# Names that end with the name of an account, which may be any word.
_OF_AN_ACCOUNT = re.compile(
    r"\bazure\.(account\.key|account\.oauth2\.(client\.secret|user\.password)|sas\.fixed\.token)\.",
    re.IGNORECASE,
)
_ON_KUBERNETES = r"spark\.kubernetes\.(driver|executor)"
_OBJECT = r"[a-z0-9][a-z0-9.-]*"  # of Kubernetes, by its name
# Name and value of settings that refer to a secret, or describe one. With another value they are
# judged as all others are.
_REFERENCES = [
    (re.compile(name), re.compile(value, re.ASCII))
    for name, value in (
        (rf"{_ON_KUBERNETES}\.secretKeyRef\..+", rf"{_OBJECT}:[\w.-]+"),
        (rf"{_ON_KUBERNETES}\.secrets\..+", r"/[\w./-]*"),
        (rf"{_ON_KUBERNETES}(\.service)?\.label\..+", r"[\w.-]*"),
        (r"spark\.kubernetes\.container\.image\.pullSecrets", rf"{_OBJECT}(\s*,\s*{_OBJECT})*"),
        (r"spark\.kubernetes\.kerberos\.tokenSecret\.(name|itemKey)", r"[\w.-]+"),
        (r"spark\.(sql\.)?redaction\.((string|options)\.)?regex", r"(?s:.*)"),
        # A key of AWS's key store, by alias or id. A key of one's own is in base64, with = behind.
        (
            r"spark\.hadoop\.fs\.s3a\.(bucket\..+\.)?(server-side-)?encryption\.key",
            r"alias/[\w/-]+|mrk-[0-9a-f]{32}|[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}",
        ),
        (r".+", r"arn:aws[a-z-]*:[a-z0-9-]+:[^\s=]*"),
    )
]
# Java options, JAAS, JSON, YAML, and the query of a URL.
_WITHIN = re.compile(r"""([\w.\-]+)\s*(?:=|["']\s*:|:\s)\s*["']?([^\s"';&]+)""")
_LOGIN_IN_URL = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def secret_settings(conf: Mapping[str, str]) -> list[str]:
    """Return the names of the settings that hold a secret, by their names or within their values.

    What names a file, a provider, a kind, a number or a duration is none, nor are a switch, a
    secret of Kubernetes by its name, and a key of AWS's key store by its ARN, alias or id.
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
    if any(rule.fullmatch(name) and form.fullmatch(value) for rule, form in _REFERENCES):
        return False
    if _named_secret(name) and value and value not in ("true", "false"):
        return True
    return has_login(value) or any(_named_secret(inner) for inner, _ in _WITHIN.findall(value))


def _named_secret(name: str) -> bool:
    if _OF_AN_ACCOUNT.search(name):
        return True
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)
