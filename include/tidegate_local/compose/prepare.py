"""What Airflow's services read before they start: files of secrets, and pipelines.

Passwords come as they are, with any character, and are quoted here: a database's address is a URL,
the users' passwords are JSON.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tidegate.errors import ConfigurationError
from tidegate_local import state_files

USER = "admin"
PASSWORDS = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
DRIVERS = ("psycopg2", "asyncpg")
_SPARK = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.network.crypto.cipher AES/GCM/NoPadding
spark.ui.killEnabled false
"""


def prepare(environ: Mapping[str, str], address: str) -> None:
    """Write the password of Airflow's user, and a file `<driver>.url` beside it for each driver.

    `address` is `user@host:port/database`. Raises ConfigurationError if a password is missing, or
    if this user cannot read a pipeline file.
    """
    passwords = Path(_needed(environ, PASSWORDS))
    state_files.write(passwords, {USER: _needed(environ, "AIRFLOW_ADMIN_PASSWORD")})
    user, _, place = address.partition("@")
    login = f"{user}:{quote(_needed(environ, 'POSTGRES_PASSWORD'), safe='')}"
    for driver in DRIVERS:
        _write(passwords.with_name(f"{driver}.url"), f"postgresql+{driver}://{login}@{place}")
    # A digest: properties would take some characters for something else.
    secret = hashlib.sha256(_needed(environ, "SPARK_SECRET").encode()).hexdigest()
    defaults = Path(_needed(environ, "SPARK_CONF_DIR")) / "spark-defaults.conf"
    _write(defaults, _SPARK.format(secret=secret))
    _check_readable(Path(_needed(environ, "TIDEGATE_PIPELINES")))


def _needed(environ: Mapping[str, str], name: str) -> str:
    if not (value := environ.get(name)):
        raise ConfigurationError(f"{name} is not set: see .env.example")
    return value


def _write(file: Path, text: str) -> None:
    """Replace a file that its owner alone may read."""
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:  # noqa: PTH123
        out.write(text)
    new.replace(file)


def _check_readable(directory: Path) -> None:
    """Raise for what a host's umask of 077 keeps from this user."""
    fix = f"the container's user {os.geteuid()} must read it: chmod -R a+rX include/pipelines"
    if not os.access(directory, os.R_OK | os.X_OK):
        raise ConfigurationError(f"{directory} cannot be read; {fix}")
    for file in sorted(directory.glob("*.y*ml")):
        if not os.access(file, os.R_OK):
            raise ConfigurationError(f"{file} cannot be read; {fix}")
