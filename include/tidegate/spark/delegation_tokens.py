"""Delegation tokens of Kafka clusters: obtained by the driver, renewed while the application runs,
and cancelled at its end.

Spark obtains tokens itself with the master of another cluster manager than its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from tidegate.core.wording import duration
from tidegate.errors import ConfigurationError, NotAuthenticated
from tidegate.spark.failures import describe, describe_thrown, is_refused_login, java_causes
from tidegate.spark.job_files import Login
from tidegate.spark.kafka_source import redact_options

_PATIENCE = 15_000  # ms to obtain a token
# Records per second: a fifth of the slowest whole run of records of 1 KB in docs/benchmarks.md.
_SLOWEST = 5_000
_START = 600  # seconds that are allowed for besides
_WITHOUT = ("local", "spark://")  # masters with which Spark obtains no token itself
# Of Kafka's client: it prints pages of settings.
_TALKATIVE = (
    "clients.admin.AdminClientConfig",
    "common.security.authenticator.AbstractLogin",
    "common.utils.AppInfoParser",
)

log = logging.getLogger(__name__)


class _Token:
    """A token in use. `expiry` and `last`, the end of renewals, are times of this machine's clock.

    The broker's clock may differ: only its durations are used.
    """

    def __init__(self, jvm: Any, conf: Any, login: Login) -> None:
        # `KafkaDelegationTokenProvider.obtainDelegationTokens` is not used: it turns each failure
        # into a warning, and leaves its client open.
        tokens = jvm.org.apache.spark.kafka010
        cluster = tokens.KafkaTokenSparkConf.getClusterConfig(conf, login.cluster)
        tokens.KafkaTokenUtil.checkProxyUser()
        properties = tokens.KafkaTokenUtil.createAdminClientProperties(conf, cluster)
        self._jvm, self.login = jvm, login
        self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        try:
            made = self._admin.createDelegationToken().delegationToken().get()
        except Py4JJavaError:
            self.close()
            raise
        info = made.tokenInfo()
        self._skew: float = time.time() - info.issueTimestamp() / 1000
        self.expiry: float = info.expiryTimestamp() / 1000 + self._skew
        self.last: float = info.maxTimestamp() / 1000 + self._skew
        self._hmac = made.hmac()
        self.service = tokens.KafkaTokenUtil.getTokenService(login.cluster)
        self.hadoop = jvm.org.apache.hadoop.security.token.Token(
            info.tokenId().encode(),
            made.hmacAsBase64String().encode(),
            tokens.KafkaTokenUtil.TOKEN_KIND(),
            self.service,
        )

    def renew(self) -> None:
        """Postpone the expiry by the broker's `delegation.token.expiry.time.ms`."""
        # The token keeps its name and secret, so open clients log in again with what they have. A
        # new token would not reach a producer in the middle of a task.
        done = self._admin.renewDelegationToken(self._hmac)
        self.expiry = done.expiryTimestamp().get() / 1000 + self._skew

    def cancel(self) -> None:
        """Make the token invalid. It is not an error if it has expired."""
        try:
            options = self._jvm.org.apache.kafka.clients.admin.ExpireDelegationTokenOptions()
            done = self._admin.expireDelegationToken(self._hmac, options.expiryTimePeriodMs(-1))
            done.expiryTimestamp().get()
            self.close()
        except Py4JError as error:
            if time.time() < self.expiry:
                log.warning(
                    "the delegation token of %s was not cancelled, it expires at %s: %s",
                    self.login.name, _at(self.expiry), describe(error),
                )  # fmt: skip

    def close(self) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(5))


class NoToken(Exception):
    """A delegation token is missing, or its cluster no longer accepts it.

    A retry obtains a new one.
    """


class Tokens:
    """The tokens of an application. `expected` are of clusters for which Spark obtains them."""

    def __init__(self, tokens: Sequence[_Token] = (), expected: Sequence[Login] = ()) -> None:
        self._tokens, self._expected = tokens, expected

    @contextmanager
    def used_by(self, spark: SparkSession) -> Iterator[None]:
        """Let the driver and all executors, also later ones, use the tokens.

        Raises NoToken in the place of an error that comes from a token's death.
        """
        if self._expected:
            self._refuse_missing(spark)
        if self._tokens:
            self.give_to(spark)
        try:
            yield
        except (CapturedException, Py4JJavaError) as error:
            has_token = self._tokens or self._expected
            if has_token and "SaslAuthenticationException" in describe_thrown(error):
                raise NoToken(f"{self._why()}; a retry obtains a new one") from error
            raise

    def give_to(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        jvm, scala = context._jvm, context._jsc.sc()
        credentials = jvm.org.apache.hadoop.security.Credentials()
        for token in self._tokens:
            credentials.addToken(token.service, token.hadoop)
        hadoop = jvm.org.apache.spark.deploy.SparkHadoopUtil.get()
        data, backend = hadoop.serialize(credentials), scala.schedulerBackend()
        if context.master.partition("[")[0] == "local":
            hadoop.addDelegationTokens(data, scala.conf())
            return
        # To executors that are registered. Others get the tokens when they ask for settings.
        backend.updateDelegationTokens(data)
        if not scala.conf().getBoolean("spark.dynamicAllocation.enabled", False):
            _wait_for_executor(backend)
            backend.updateDelegationTokens(data)
        _in_background(lambda: _send_again(backend, data))

    def _refuse_missing(self, spark: SparkSession) -> None:
        jvm = spark.sparkContext._jvm
        user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
        service = jvm.org.apache.spark.kafka010.KafkaTokenUtil.getTokenService
        held = user.getCredentials()
        missing = [e.name for e in self._expected if held.getToken(service(e.cluster)) is None]
        if missing:
            raise NoToken(  # Spark says no more if only a broker or the KDC did not answer
                f"{', '.join(missing)}: Spark has obtained no delegation token; its log has the "
                "reason. Hadoop's security must be Kerberos, and "
                "spark.security.credentials.kafka.enabled on"
            )

    def _why(self) -> str:
        """Return why a token is refused, as far as it is known here."""
        dead = [each for each in self._tokens if each.expiry <= time.time()]
        if not dead:
            logins = [each.login for each in self._tokens] or self._expected
            names = ", ".join(login.name for login in logins)
            return f"the delegation token of {names} is no longer accepted: it was cancelled"
        return "; ".join(
            f"the delegation token of {each.login.name} expired at {_at(each.expiry)}"
            + (", the end of its maximum lifetime" if each.expiry > each.last - 1 else "")
            for each in dead
        )


NO_TOKENS = Tokens()


def _wait_for_executor(backend: Any) -> None:
    """Wait until one is registered, without which no task runs; for at most 30 s."""
    until = time.monotonic() + 30
    while backend.getExecutorIds().isEmpty() and time.monotonic() < until:
        time.sleep(0.1)


def _send_again(backend: Any, data: bytes) -> None:
    """Send the tokens to executors that register in the first minute.

    One may have asked for Spark's settings just before the tokens were among them.
    """
    seen, until = None, time.monotonic() + 60
    while time.monotonic() < until:
        if (now := backend.getExecutorIds().mkString(",")) != seen:
            backend.updateDelegationTokens(data)
        seen = now
        time.sleep(0.1)


@contextmanager
def obtain_tokens(logins: Sequence[Login], records: int) -> Iterator[Tokens]:
    """Yield the tokens of these clusters. Renew them meanwhile, and cancel them at the end.

    To be entered before Spark's context starts, so that no executor starts without tokens.
    `records` is about how many the application reads or writes: a warning tells that a token may
    not live long enough. Raises NotAuthenticated or ConfigurationError if a retry would fail too.
    """
    if not logins:
        yield NO_TOKENS
        return
    SparkContext._ensure_initialized()
    jvm, conf = SparkContext._jvm, SparkConf()._jconf
    assert jvm is not None
    if not conf.get("spark.master", "local").startswith(_WITHOUT):
        yield Tokens(expected=logins)
        return
    # Spark sets logging up with its first line, and would undo what was set before.
    jvm.org.apache.spark.kafka010.KafkaTokenSparkConf.getAllClusterConfigs(conf)
    for name in _TALKATIVE:
        configurator = jvm.org.apache.logging.log4j.core.config.Configurator
        configurator.setLevel(f"org.apache.kafka.{name}", "WARN")
    if jvm.org.apache.spark.kafka010.KafkaTokenUtil.isGlobalJaasConfigurationProvided():
        raise ConfigurationError(
            "Java has a global JAAS configuration with a section KafkaClient, which Spark would "
            "use in the place of a delegation token; remove java.security.auth.login.config"
        )
    ended = threading.Event()
    with ExitStack() as stack:
        tokens = []
        for login in logins:
            token = _obtain(jvm, conf, login)
            stack.callback(token.cancel)
            tokens.append(token)
            _warn_if_too_short(token, records)
        thread = _in_background(lambda: _renew(tokens, ended))
        stack.callback(thread.join, 5)
        stack.callback(ended.set)
        yield Tokens(tokens)


def _obtain(jvm: Any, conf: Any, login: Login) -> _Token:
    clone = conf.clone()  # the login must not get into the settings that Spark shows
    for key, value in _patient(login.settings).items():
        clone.set(f"spark.kafka.clusters.{login.cluster}.kafka.{key}", value)
    try:
        token = _Token(jvm, clone, login)
    except Py4JJavaError as error:
        if terminal := _terminal(error, login):
            raise terminal from error
        raise
    log.info("%s: delegation token obtained, it expires at %s", login.name, _at(token.expiry))
    return token


def _terminal(error: Py4JJavaError, login: Login) -> Exception | None:
    """Return the error of a login or request that a retry would not mend. None: it may pass."""
    causes = {each.getClass().getSimpleName(): each.getMessage() for each in java_causes(error)}
    of = f"{login.name}: no delegation token:"
    if is_refused_login(error):
        said = describe(error)
        return NotAuthenticated(f"{of} {said}; check sasl.* and ssl.* of the connection")
    if "UnsupportedVersionException" in causes:
        return ConfigurationError(
            f"{of} its brokers give none; remove tidegate.delegation_token from the connection"
        )
    if "DelegationTokenDisabledException" in causes:
        return ConfigurationError(
            f"{of} its brokers have no delegation.token.secret.key; set it, or remove "
            "tidegate.delegation_token from the connection"
        )
    if "proxy user" in str(causes.get("IllegalArgumentException")):
        return ConfigurationError(f"{of} Spark: {causes['IllegalArgumentException']}")
    return None


def _patient(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with time-outs: by default Kafka's client waits a minute."""
    request = settings.get("request.timeout.ms", "8000")
    return {
        "request.timeout.ms": request,
        "default.api.timeout.ms": str(max(_PATIENCE, int(request))),
        **settings,
    }


def _warn_if_too_short(token: _Token, records: int) -> None:
    left, needed = token.last - time.time(), _START + records / _SLOWEST
    if left < needed:
        log.warning(
            "%s: a delegation token lives for %s there (delegation.token.max.lifetime.ms), and "
            "these %d records may take up to %s; give the run fewer, or let tokens live longer",
            token.login.name, duration(left), records, duration(needed),
        )  # fmt: skip


def _renew(tokens: Sequence[_Token], ended: threading.Event) -> None:
    """Renew each token in the middle of its life, until its maximum lifetime."""
    due = {token: _middle(token) for token in tokens}
    while not ended.wait(1):
        for token in tokens:
            may_live_longer = time.time() < token.expiry <= token.last - 1
            if not may_live_longer or time.monotonic() < due[token]:
                continue
            try:
                token.renew()
            except Py4JJavaError as error:
                log.warning(
                    "%s: the delegation token, which expires at %s, was not renewed: %s",
                    token.login.name, _at(token.expiry),
                    redact_options(describe(error), token.login.settings),
                )  # fmt: skip
            due[token] = _middle(token)


def _middle(token: _Token) -> float:
    """Return when half of what is left of a token's life is over, on the monotonic clock."""
    return time.monotonic() + max(1.0, (token.expiry - time.time()) / 2)


def _in_background(work: Callable[[], None]) -> threading.Thread:
    def quietly() -> None:
        try:
            work()
        except Exception as error:  # the application has ended
            log.debug("delegation tokens: %s", error)

    thread = threading.Thread(target=quietly, name="tidegate-tokens", daemon=True)
    thread.start()
    return thread


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
