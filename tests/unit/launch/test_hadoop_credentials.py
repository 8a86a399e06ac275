"""Files of Hadoop credentials, read back by rules of their own."""

import stat
from pathlib import Path

import pytest

from tidegate.launch import hadoop_credentials


def number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends, by the rules of `WritableUtils.readVInt`."""
    first = int.from_bytes(data[at : at + 1], "big", signed=True)
    if first >= -112:
        return first, at + 1
    size = -112 - first
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def secrets(data: bytes) -> dict[str, bytes]:
    assert data[:5] == b"HDTS\0"
    tokens, at = number(data, 5)
    assert tokens == 0
    count, at = number(data, at)
    found = {}
    for _ in range(count):
        size, at = number(data, at)
        name, at = data[at : at + size].decode(), at + size
        size, at = number(data, at)
        found[name], at = data[at : at + size], at + size
    assert at == len(data)
    return found


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 65_535, 65_536, 1 << 24])
def test_secrets_of_all_lengths_are_read_back(tmp_path: Path, size: int) -> None:
    secret = bytes(i % 251 for i in range(size))
    hadoop_credentials.write_credentials(tmp_path / "credentials", "tidegate", secret)
    assert secrets((tmp_path / "credentials").read_bytes()) == {"tidegate": secret}


def test_the_bytes_that_hadoop_has_read(tmp_path: Path) -> None:
    """Hadoop 3.4.1 took a file of this form, with a secret of 212 bytes, for one secret key."""
    hadoop_credentials.write_credentials(tmp_path / "credentials", "tidegate", b"x" * 212)
    written = (tmp_path / "credentials").read_bytes()
    assert written == b"HDTS\0\0\x01\x08tidegate\x8f\xd4" + b"x" * 212


def test_only_its_owner_can_read_it_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    hadoop_credentials.write_credentials(path, "tidegate", b"first")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        hadoop_credentials.write_credentials(path, "tidegate", b"second")
    assert secrets(path.read_bytes()) == {"tidegate": b"first"}
