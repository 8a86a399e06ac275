"""Which errors of a reader may blame a file."""

import pytest

from tidegate.spark import bad_files

IO = "java.io.IOException"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (IO, "No space left on device"),
        (IO, "Too many open files"),
        (IO, "Connection timed out"),
        ("javax.net.ssl.SSLException", "peer shut down"),
        ("java.nio.channels.ClosedByInterruptException", ""),
        ("org.xerial.snappy.SnappyError", "[FAILED_TO_LOAD_NATIVE_LIBRARY]"),
        ("org.apache.spark.SparkException", "caused by java.net.SocketTimeoutException: read"),
    ],
)
def test_what_a_retry_may_cure(monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    monkeypatch.setattr(bad_files, "thrown_errors", lambda _: [(name, message)])
    assert bad_files.is_temporary(RuntimeError())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("java.io.EOFException", "in file:///in/Socket.Timeout/a.gz: Unexpected end"),
        (
            "org.apache.spark.SparkNumberFormatException",
            "[CAST_INVALID_INPUT] The value 'java.net.ConnectException: No space left on device' "
            'of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018',
        ),
    ],
)
def test_what_a_retry_will_find_again(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    """A word in the path of the file is not a class, nor is what a row says an error."""
    monkeypatch.setattr(bad_files, "thrown_errors", lambda _: [(name, message)])
    assert not bad_files.is_temporary(RuntimeError())
