"""Which settings of Spark hold a secret: all users of the machine would see it as an argument of a
command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

WHY = "a secret here would show in the process list"
USE = "Spark's environment, a credentials provider or spark-defaults.conf"
_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|(?<!by)pass(?![a-z])|pwd|(?<![a-z])pw(?![a-z])"
    r"|jaas|token|(?<!google_application_)credentials?$|(?<![a-z])(creds?|cookie|salt|sas)$"
    r"|(^|[._-])sig(nature)?$|authorization$|(basic|proxy|zk|zookeeper)[._-]?auth$"
    r"|(?<![a-z])bearer|hmac|webhook|(?<![a-z])pat(?![a-z])"
    r"|(access|account|api|app|auth|cipher|client|(de|en)crypt(ion)?|fernet|license|master|private"
    r"|session|shared|signing|ssh|storage)[._-]?key(?![._-]?(id|provider|rolling|store))",
    re.IGNORECASE,
)
# Names of settings with the place, the kind or an attribute of a secret.
_NO_SECRET = re.compile(
    r"(provider|path|(?<!pro)file|location|type|class|mechanism|enabled|endpoint|length|regex"
    r"|algorithm|bits|interval|lifetime)$",
    re.IGNORECASE,
)
# Names that end in the name of an Azure account, which may be any word.
_OF_AN_ACCOUNT = re.compile(
    r"\bazure\.(account\.key\.|account\.oauth2\.(client\.secret|user\.password)\."
    r"|sas\.(?!token\.provider))",
    re.IGNORECASE,
)
_ON_KUBERNETES = r"spark\.kubernetes\.(driver|executor)"
_OBJECT = r"[a-z0-9][a-z0-9.-]*"  # the name of a Kubernetes object
# Names and values of settings that refer to a secret or describe one. With other values they are
# checked as all settings are.
_REFERENCES = [
    (re.compile(name), re.compile(value, re.ASCII))
    for name, value in (
        (rf"{_ON_KUBERNETES}\.secretKeyRef\..+", rf"{_OBJECT}:[\w.-]+"),
        (rf"{_ON_KUBERNETES}\.secrets\..+", r"/[\w./-]*"),
        (rf"{_ON_KUBERNETES}(\.service)?\.label\..+", r"[\w.-]*"),
        (r"spark\.kubernetes\.container\.image\.pullSecrets", rf"{_OBJECT}(\s*,\s*{_OBJECT})*"),
        (r"spark\.kubernetes\.kerberos\.tokenSecret\.(name|itemKey)", r"[\w.-]+"),
        (r"spark\.(sql\.)?redaction\.((string|options)\.)?regex", r"(?s:.*)"),
        # A key in AWS KMS, by alias or id. A customer-provided key is base64 that ends in "=".
        (
            r"spark\.hadoop\.fs\.s3a\.(bucket\..+\.)?(server-side-)?encryption\.key",
            r"alias/[\w/-]+|mrk-[0-9a-f]{32}|[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}",
        ),
        (r".+", r"arn:aws[a-z-]*:[a-z0-9-]+:[^\s=]*"),
    )
]
# Names with a value in Java options, JAAS, JSON, YAML, and the query of a URL. Linear: a name is
# looked at from its beginning alone, and no quantifier gives back what it took.
_WITHIN = re.compile(r"""(?<![\w.\-])([\w.\-]++)\s*+(?:=|["']\s*+:|:\s)\s*+["']?(?=[^\s"';&])""")
_LOGIN_IN_URL = re.compile(r"://[^/\s:@]*+:[^/\s@]++@|\bhttps?://[^/\s@]++@")
# What is a secret whatever its name. Linear: each form begins with a text, and has an upper bound
# or is looked at from its beginning alone.
_FORM = re.compile(
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY"
    r"|\bA(?:KI|SI)A[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bdapi[0-9a-f]{32}"
    r"|\bgh[opsur]_[0-9A-Za-z]{20}|\bgithub_pat_\w{20}|\bglpat-[\w-]{20}|\bnpm_[0-9A-Za-z]{36}"
    r"|\bxox[a-z]-[\w-]{10}|\b[rs]k_(?:live|test)_\w{10}|\bsk-[a-z]{2,6}-[\w-]{20}"
    r"|\bhv[sbr]\.[\w-]{20}|\bya29\.[\w-]{20}|\bSG\.[\w-]{16}|\bdop_v1_[0-9a-f]{32}"
    r"|(?<![\w-])eyJ[\w-]{8,}+\.[\w-]++\."
    r"|\bhooks\.slack\.com/|/api/webhooks/|[?&](?:code|key)=[^&\s]{8}"
    r"|\bjdbc:oracle:thin:[^/\s@]{1,64}/[^/\s@]{1,128}@"
    r"|(?i:\bauthorization\s?[:=]\s?(?:aws4|basic|bearer|digest|negotiate|token)"
    r"|\bbearer\s[\w+/=.~-]{8}|\bbasic\s(?=[a-z+/]{0,99}[0-9=])[\w+/=]{8})"
)


def secret_settings(conf: Mapping[str, str]) -> list[str]:
    """Return the names of the settings that hold a secret, by their names or values.

    The name of a file, a provider or a kind is no secret, nor are numbers, durations, switches, the
    name of a Kubernetes secret, and the ARN, alias or id of a key in AWS KMS.
    """
    return sorted(name for name, value in conf.items() if is_secret(name, value))


def secrets_complaint(names: list[str]) -> str:
    """Return the message about secrets in these settings, and where they belong."""
    return f"spark.conf: {', '.join(names)}: {WHY}; use {USE}"


def may_refer(name: str) -> bool:
    """Return whether a setting of this name may refer to a secret."""
    return any(rule.fullmatch(name) for rule, _ in _REFERENCES[:-1])


def has_login(url: str) -> bool:
    """Return whether a URL contains a user's password."""
    return bool(_LOGIN_IN_URL.search(url))


def is_secret(name: str, value: str) -> bool:
    """Return whether a setting holds a secret, by its name or its value."""
    if any(rule.fullmatch(name) and form.fullmatch(value) for rule, form in _REFERENCES):
        return False
    refers = value.startswith("@/")  # Hadoop's form of a file that holds it
    if named_secret(name) and value and value not in ("true", "false") and not refers:
        return True
    return (
        has_login(value)
        or bool(_FORM.search(value))
        or any(named_secret(inner) for inner in _WITHIN.findall(value))
    )


def named_secret(name: str) -> bool:
    """Return whether a setting of this name holds a secret, unless its value only refers to one."""
    if _OF_AN_ACCOUNT.search(name):
        return True
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)
