"""GSSAPI: Kerberos by Java, for Spark and for kafka-python, which needs no C library then.

Java is there anyway: Spark needs it. A small JVM makes the messages of a login, kafka-python sends
them.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from tidegate.broker.mechanism import Mechanism, jaas, refusal_text
from tidegate.broker.tls import not_a_path
from tidegate.core.java_client import PrivateFiles
from tidegate.core.java_logins import is_away
from tidegate.errors import (
    BrokerUnreachable,
    ConfigurationError,
    NotAuthenticated,
    TidegateError,
)

_SERVICE = "sasl.kerberos.service.name"
_PRINCIPAL = "sasl.kerberos.principal"
_KEYTAB = "sasl.kerberos.keytab"
NAMES = (_SERVICE, _PRINCIPAL, _KEYTAB)

_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_ENTRY = "com.sun.security.jgss.krb5.initiate"  # the name by which Java's GSSAPI looks it up
_OPTIONS = (
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:-CreateCoredumpOnCrash",  # it would hold the tickets
    "-XX:+ExitOnOutOfMemoryError",  # the next login starts another
    "-Djavax.security.auth.useSubjectCredsOnly=false",
    "--add-opens=jdk.security.jgss/com.sun.security.sasl.gsskerb=ALL-UNNAMED",
)
_PATIENCE = 10.0  # seconds for an answer of the JVM. Java would ask a silent KDC for 90
_HINTS = {
    "Unable to obtain password": (
        f"{_KEYTAB} holds no key of {_PRINCIPAL}, or the ticket cache no valid ticket"
    ),
    "Cannot locate KDC": "krb5.conf names no KDC of this realm; set KRB5_CONFIG to its path",
    "Server not found": f"the KDC knows no such service: check {_SERVICE} and the broker's name",
    "Clock skew": "the clocks of this machine and of the KDC differ too much",
    "Checksum failed": f"the key in {_KEYTAB} is no longer the principal's",
    "Pre-authentication": (
        f"the key in {_KEYTAB} is no longer the principal's, or the clocks of this machine and"
        " of the KDC differ"
    ),
    "Integrity check": f"the key in {_KEYTAB} is no longer the principal's",
    "Unable to obtain Principal": "the ticket cache holds no valid ticket: run kinit",
    "Ticket expired": "run kinit, or give a keytab",
}


def complaints(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the settings of GSSAPI. No file is read."""
    service = given.get(_SERVICE, "kafka")
    if not re.fullmatch("[A-Za-z0-9._-]+", service):
        yield f"{_SERVICE}: {service!r}: no name of a service; the host's name is added to it"
    if _KEYTAB in given and _PRINCIPAL not in given:
        yield f"{_PRINCIPAL}: missing: {_KEYTAB} needs it"
    if wrong := not_a_path(given, _KEYTAB):
        yield wrong


def unusable(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with keytab, ticket cache and krb5.conf of this machine."""
    keytab, configuration = given.get(_KEYTAB), _krb5_conf()
    if keytab is not None:
        if not_a_path(given, _KEYTAB):
            return
        try:
            with Path(keytab).open("rb") as file:
                if file.read(1) != b"\5":
                    yield f"{_KEYTAB}: {keytab}: not a keytab"
        except (OSError, ValueError) as error:
            yield f"{_KEYTAB}: {keytab}: {getattr(error, 'strerror', None) or error}"
    elif (cache := _ticket_cache()) is None:
        yield "KRB5CCNAME: Java reads ticket caches of the kind FILE: only; or give a keytab"
    elif not os.access(cache, os.R_OK):
        yield (
            f"{_KEYTAB}: missing, and there is no ticket cache {cache} (KRB5CCNAME): run kinit, or"
            f" give {_PRINCIPAL} and {_KEYTAB}"
        )
    if configuration and not os.access(configuration, os.R_OK):
        yield f"KRB5_CONFIG: {configuration}: no such file, or not readable"


def _krb5_conf() -> str | None:
    """Return the file that KRB5_CONFIG names. Java knows only /etc/krb5.conf by itself."""
    return os.environ.get("KRB5_CONFIG", "").partition(":")[0] or None


def _ticket_cache() -> str | None:
    """Return the path of the ticket cache. None if it is of a kind that Java cannot read."""
    name = os.environ.get("KRB5CCNAME") or f"FILE:/tmp/krb5cc_{os.getuid()}"
    kind, colon, path = name.partition(":")
    return name if not colon or name.startswith("/") else path if kind == "FILE" else None


def _jaas(given: Mapping[str, str]) -> str:
    if keytab := given.get(_KEYTAB):
        options = {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab}
    else:
        options = {"useTicketCache": "true", "ticketCache": _ticket_cache() or ""}
    if principal := given.get(_PRINCIPAL):
        options["principal"] = principal
    return jaas(_MODULE, {**options, "doNotPrompt": "true"})


class Gssapi(Mechanism):
    """A ticket of Kerberos, by a keytab or from a ticket cache."""

    name = "GSSAPI"
    check = f"{_PRINCIPAL} and {_SERVICE} of the connection"
    allowed: ClassVar[tuple[str, ...]] = NAMES
    refused: ClassVar[Mapping[str, str]] = {
        "sasl.kerberos.kinit.cmd": f"it is a command to run; Java logs in with {_KEYTAB}"
    }

    def complaints(self, given: Mapping[str, Any]) -> Iterator[str]:
        return complaints(given)

    def unusable(self, given: Mapping[str, Any]) -> Iterator[str]:
        return unusable(given)

    def identity(self, given: Mapping[str, Any]) -> str:
        principal = given.get(_PRINCIPAL)
        return f"as {principal}" if principal else "as the owner of the ticket cache"

    def session(self, given: Mapping[str, str], cluster: str) -> _Tickets:
        return _Tickets(given, cluster)

    def for_java(
        self, given: Mapping[str, str], files: PrivateFiles, cluster: str
    ) -> dict[str, str]:
        del files, cluster
        return {
            "kafka.sasl.jaas.config": _jaas(given),
            f"kafka.{_SERVICE}": given.get(_SERVICE, "kafka"),
        }

    def java_options(self) -> tuple[str, ...]:
        """Return the krb5.conf of KRB5_CONFIG, a variable that Java does not read."""
        path = _krb5_conf()
        return (f"-Djava.security.krb5.conf={path}",) if path else ()

    def spark_login(self, given: Mapping[str, Any]) -> dict[str, str]:
        keytab, principal = given.get(_KEYTAB), given.get(_PRINCIPAL)
        if not (keytab and principal):
            return {}
        return {"spark.kerberos.keytab": keytab, "spark.kerberos.principal": principal}

    def token_settings(self, given: Mapping[str, Any]) -> dict[str, str]:
        return {_SERVICE: given[_SERVICE]} if _SERVICE in given else {}


class _Tickets:
    """A login for each client: the ticket cache may be another one by then."""

    error: TidegateError | None = None

    def __init__(self, given: Mapping[str, str], cluster: str) -> None:
        self._given, self._cluster = given, cluster

    def arguments(self) -> dict[str, Any]:
        from kafka.net.sasl import register_sasl_mechanism

        register_sasl_mechanism("GSSAPI", JavaMechanism, overwrite=True)
        login = Login(_jaas(self._given), self._given.get(_SERVICE, "kafka"), self._cluster)
        login.attempt()
        return {"sasl_mechanism": "GSSAPI", "sasl_kerberos_name": login}


class Login:
    """The login of one principal. kafka-python gives it to its mechanism as `sasl_kerberos_name`.

    Its methods raise NotAuthenticated, BrokerUnreachable if the KDC does not answer, or
    ConfigurationError.
    """

    def __init__(self, entry: str, service: str, cluster: str) -> None:
        self._entry, self._service, self.cluster = entry, service, cluster

    def attempt(self) -> None:
        """Get a ticket from the KDC, or read it from the cache."""
        with self.errors():
            start_gateway(self._entry).jvm.javax.security.auth.login.LoginContext(_ENTRY).login()

    def client(self, host: str) -> Any:
        """Return Java's SASL client for the broker on this host."""
        with self.errors():
            gateway = start_gateway(self._entry)
            mechanisms = gateway.new_array(gateway.jvm.java.lang.String, 1)
            mechanisms[0] = "GSSAPI"
            settings = gateway.jvm.java.util.HashMap()
            return gateway.jvm.javax.security.sasl.Sasl.createSaslClient(
                mechanisms, None, self._service, host, settings, None
            )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate what the JVM throws."""
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            texts, names, thrown = [], [], error.java_exception
            while thrown is not None:
                names.append(str(thrown.getClass().getSimpleName()))
                texts.append(" ".join(str(thrown.getMessage() or names[-1]).split()))
                thrown = thrown.getCause()
            said = "; because of ".join(dict.fromkeys(texts))
            if is_away(" ".join([said, *names])):
                raise BrokerUnreachable(
                    f"{self.cluster}: the Kerberos KDC does not answer: {said}"
                ) from None
            hint = next((hint for text, hint in _HINTS.items() if text in said), None)
            raise NotAuthenticated(
                f"{self.cluster}: Kerberos refused the login: {said}"
                + (f": {hint}" if hint else "")
            ) from None
        except Py4JError:  # no answer, or the JVM has ended
            end_gateway(self._entry)
            raise BrokerUnreachable(
                f"{self.cluster}: the Kerberos KDC has not answered for {_PATIENCE:.0f} s"
            ) from None


class JavaMechanism:
    """A mechanism of kafka-python: one login by Java's SASL client."""

    def __init__(self, *, sasl_kerberos_name: Login, host: str, **_: Any) -> None:
        self._login = sasl_kerberos_name
        self._client = self._login.client(host)
        self._next = self._evaluated(b"")
        self._is_done = False

    def auth_bytes(self) -> bytes:
        """Return the next message to the broker."""
        return self._next

    def receive(self, answer: bytes) -> None:
        """Take the broker's answer to the last message."""
        with self._login.errors():
            self._is_done = self._client.isComplete()
        if not self._is_done:
            self._next = self._evaluated(answer)

    def is_done(self) -> bool:
        return self._is_done

    def is_authenticated(self) -> bool:
        return self._is_done

    def auth_details(self) -> str:
        return "Authenticated via SASL / GSSAPI"

    def _evaluated(self, challenge: bytes) -> bytes:
        from kafka.errors import SaslAuthenticationFailedError

        try:
            with self._login.errors():
                return bytes(self._client.evaluateChallenge(challenge) or b"")
        except NotAuthenticated as error:
            _, _, said = str(error).partition(f"{self._login.cluster}: ")
            raise SaslAuthenticationFailedError(refusal_text(said)) from None


# By JAAS entry, krb5.conf and process: Java reads either but once.
_jvms: dict[tuple[str, str | None, int], tuple[subprocess.Popen[bytes], Any]] = {}
_starting = threading.Lock()


def start_gateway(entry: str) -> Any:
    """Return the gateway to the JVM that logs in by this JAAS entry. It ends with this process."""
    key = (entry, _krb5_conf(), os.getpid())
    with _starting:
        if key not in _jvms or _jvms[key][0].poll() is not None:
            _jvms[key] = _start(entry, _krb5_conf())
        return _jvms[key][1]


def end_gateway(entry: str) -> None:
    with _starting:
        if ended := _jvms.pop((entry, _krb5_conf(), os.getpid()), None):
            ended[0].kill()
            ended[0].wait()


def _is_no_trace(record: logging.LogRecord) -> bool:
    """Return False for py4j's own stack trace of an answer that did not come: the error says it."""
    return record.msg != "Exception while sending command."


def _start(entry: str, configuration: str | None) -> tuple[subprocess.Popen[bytes], Any]:
    from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

    logging.getLogger().addFilter(_is_no_trace)  # where py4j logs it
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise ConfigurationError("sasl.mechanism GSSAPI needs Java 17 or 21: set JAVA_HOME")
    options = [
        *_OPTIONS,
        *([f"-Djava.security.krb5.conf={configuration}"] if configuration else []),
    ]
    with tempfile.TemporaryDirectory(prefix="tidegate-") as private:
        file = Path(private, "jaas.conf")
        file.write_text(f"{_ENTRY} {{ {entry} }};")
        process = subprocess.Popen(
            [
                *(java, *options, f"-Djava.security.auth.login.config={file}"),
                *("-cp", find_jar_path(), "py4j.GatewayServer"),
                *("--die-on-broken-pipe", "--enable-auth", "0"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},  # ours may hold secrets
        )
        assert process.stdout is not None
        port, secret = process.stdout.readline(), process.stdout.readline().decode().strip()
        if not secret:
            raise ConfigurationError(f"sasl.mechanism GSSAPI: {java} did not start")
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=int(port),
                auth_token=secret,
                read_timeout=_PATIENCE,
                enable_memory_management=False,  # a few objects for each login
            )
        )
        gateway.jvm.javax.security.auth.login.Configuration.getConfiguration()  # reads the file
    return process, gateway
