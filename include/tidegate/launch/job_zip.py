"""A zip of the modules that an application needs, for a driver whose Python has no Tidegate."""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from pathlib import Path

import tidegate
from tidegate.errors import ConfigurationError
from tidegate.launch import jars

PACKAGE = Path(tidegate.__file__).parent
_MODULES = ("__init__", "errors", "faults")
_PACKAGES = ("core", "settings", "spark")


def build_zip() -> Path:
    """Return the zip for `--py-files`, made if it is missing: one file for each content.

    It is in the cache, below `zips`. Its name has the version and the beginning of its SHA-256.
    ConfigurationError if this user may not write it there.
    """
    content = _content()
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = jars.cache_dir() / "zips" / f"tidegate-{tidegate.__version__}-{digest}.zip"
    try:
        if not path.is_file():
            write_whole(path, content)
    except OSError as error:
        raise ConfigurationError(
            f"{path} is missing, and cannot be written: {error.strerror}: run `tidegate jars` as a "
            "user who may write there, or set TIDEGATE_CACHE to another directory"
        ) from None
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as directory:
        new = Path(directory) / path.name
        new.write_bytes(content)
        new.replace(path)


def _content() -> bytes:
    """Return the zip's bytes, which are the same for the same modules."""
    sources = [PACKAGE / f"{name}.py" for name in _MODULES]
    for name in _PACKAGES:
        sources += sorted((PACKAGE / name).rglob("*.py"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for source in sources:
            entry = zipfile.ZipInfo(source.relative_to(PACKAGE.parent).as_posix())
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()
