"""What an application leaves behind when it fails: a line without secrets, and refusals."""

import logging
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from support.java_errors import java_error
from tidegate.errors import (
    ConfigurationError,
    LakeDamaged,
    NotAuthenticated,
    NotAuthorised,
    TidegateError,
)
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.failures import note_needed_right, report_failure
from tidegate.spark.job_files import read_refusal

KAFKA = "org.apache.kafka.common"
SPARK = ("org.apache.spark.SparkException", "Job aborted due to stage failure")
OPTIONS = {"kafka.sasl.jaas.config": 'X required username="u" password="hun\\"ter2";'}


LOGIN_EXCEPTION = "javax.security.auth.login.LoginException"
# All that Java says if the token endpoint cannot be reached.
TOKEN_ENDPOINT = "An internal error occurred while retrieving token from callback handler"


def refusal(error: Exception, directory: Path) -> TidegateError | None:
    assert report_failure(error, "plan f00d", OPTIONS, LocalAnswers(directory)) == 1
    return read_refusal(LocalAnswers(directory).read)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            java_error(SPARK, (f"{KAFKA}.errors.SaslAuthenticationException", "invalid login")),
            NotAuthenticated,
        ),
        (
            java_error(
                (f"{KAFKA}.KafkaException", "Failed to construct"),
                (f"{KAFKA}.errors.SslAuthenticationException", "SSL handshake failed"),
                ("javax.net.ssl.SSLHandshakeException", "certificate_unknown"),
            ),
            NotAuthenticated,
        ),
        (
            java_error(
                (f"{KAFKA}.KafkaException", "Failed to create new KafkaAdminClient"),
                ("javax.security.auth.login.LoginException", "The response code 401 and error"),
            ),
            NotAuthenticated,
        ),
        (
            java_error(SPARK, (f"{KAFKA}.errors.TopicAuthorizationException", "topics: [t]")),
            NotAuthorised,
        ),
        (
            java_error(SPARK, (f"{KAFKA}.errors.GroupAuthorizationException", "group: g")),
            NotAuthorised,
        ),
        (
            java_error(
                (
                    "org.apache.spark.SparkException",
                    "Lost task 0.0: org.apache.kafka.common"
                    ".errors.TopicAuthorizationException: Not authorized to: [t]",
                )
            ),
            NotAuthorised,
        ),
        (
            java_error((f"{KAFKA}.errors.UnsupportedSaslMechanismException", "not PLAIN")),
            NotAuthenticated,
        ),
        (ConfigurationError("Spark 3.4.1: 3.5 or later is needed"), ConfigurationError),
        (LakeDamaged("a page does not match its checksum"), LakeDamaged),
    ],
)
def test_what_is_refused_is_not_retried(
    error: Exception, expected: type[TidegateError], tmp_path: Path
) -> None:
    found = refusal(error, tmp_path)
    assert type(found) is expected
    assert str(found).startswith("plan f00d: ")


@pytest.mark.parametrize(
    "error",
    [
        java_error(SPARK, (f"{KAFKA}.errors.TimeoutException", "Timed out")),
        java_error(
            (f"{KAFKA}.errors.SaslAuthenticationException", "An error: GSS initiate failed"),
            ("org.ietf.jgss.GSSException", "No valid credentials: GSS: Connection refused"),
        ),
        java_error((f"{KAFKA}.KafkaException", "x"), ("java.net.ConnectException", "refused")),
        java_error((LOGIN_EXCEPTION, "The response code 503 and")),
        java_error((LOGIN_EXCEPTION, "Receive timed out")),
        java_error((LOGIN_EXCEPTION, TOKEN_ENDPOINT)),
        java_error((LOGIN_EXCEPTION, None), ("java.net.PortUnreachableException", None)),
        java_error((LOGIN_EXCEPTION, "at x.Y\n" * 999), ("java.net.UnknownHostException", "kdc")),
        java_error((f"{KAFKA}.errors.TimeoutException", "orders.PaymentAuthorizationException-0")),
        java_error((f"{KAFKA}.errors.TimeoutException", "LoginException-0")),
        RuntimeError("disk full"),
    ],
)
def test_what_may_pass_is_retried(error: Exception, tmp_path: Path) -> None:
    assert refusal(error, tmp_path) is None


def test_a_login_that_was_accepted_before_is_retried(tmp_path: Path) -> None:
    """The password was changed meanwhile, or a token has expired; a right was withdrawn."""
    refused = java_error(SPARK, (f"{KAFKA}.errors.SaslAuthenticationException", "invalid"))
    assert report_failure(refused, "x", {}, LocalAnswers(tmp_path), began=True) == 1
    assert read_refusal(LocalAnswers(tmp_path).read) is None
    denied = java_error((f"{KAFKA}.errors.TopicAuthorizationException", "Not authorized: [t]"))
    assert report_failure(denied, "x", {}, LocalAnswers(tmp_path), began=True) == 1
    assert isinstance(read_refusal(LocalAnswers(tmp_path).read), NotAuthorised)


def test_the_right_that_is_missing_is_named(tmp_path: Path) -> None:
    """Of a step that needs none other: READ."""
    denied = (f"{KAFKA}.errors.TopicAuthorizationException", "Not authorized: [t]")
    assert "f00d: not permitted: READ: Topic" in str(refusal(java_error(denied), tmp_path))
    error = java_error(denied)
    with pytest.raises(Py4JJavaError), note_needed_right("WRITE"):
        raise error
    assert "f00d: not permitted: WRITE: Topic" in str(refusal(error, tmp_path))


def test_the_line_has_the_cause_and_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither as JAAS quotes it, nor as it is."""
    error: Py4JJavaError = java_error(
        SPARK, (f"{KAFKA}.errors.SaslAuthenticationException", 'hun"ter2 or hun\\"ter2 is wrong')
    )
    with caplog.at_level(logging.ERROR):
        found = refusal(error, tmp_path)
    assert caplog.messages == [
        "tidegate: plan f00d: SaslAuthenticationException: *** or *** is wrong"
    ]
    assert str(found) == "plan f00d: SaslAuthenticationException: *** or *** is wrong"
