"""OAUTHBEARER: tokens from an endpoint, a file or a function, for both clients."""

from __future__ import annotations

import base64
import importlib
import ipaddress
import json
import logging
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tidegate.broker import tls
from tidegate.broker.mechanism import Mechanism, jaas
from tidegate.core.java_client import PrivateFiles
from tidegate.errors import BrokerUnreachable, ConfigurationError, NotAuthenticated, TidegateError

_METHOD = "sasl.oauthbearer.method"
_CLIENT = "sasl.oauthbearer.client.id"
_SECRET = "sasl.oauthbearer.client.secret"
_SCOPE = "sasl.oauthbearer.scope"
_URL = "sasl.oauthbearer.token.endpoint.url"
_EXTENSIONS = "sasl.oauthbearer.extensions"
_FILE = "tidegate.oauthbearer.token.file"
_CALLABLE = "tidegate.oauthbearer.token.callable"
_CA = ("https.ca.location", "https.ca.pem")
_OIDC = (_METHOD, _CLIENT, _SECRET, _SCOPE, _URL, *_CA)
NAMES = (*_OIDC, _EXTENSIONS, _FILE, _CALLABLE)

_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_BUSY = ("temporarily_unavailable", "server_error")  # OAuth's errors that pass
_JAVA_PATH = re.compile(r"(/[A-Za-z0-9._~@+-]+)+")
_PATIENCE = 8.0  # seconds for an answer of the token endpoint
_USED = 0.8  # of a token's lifetime; then a new one is asked for


def complaints(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the settings of OAUTHBEARER. No file is read."""
    ways = [name for name in (_FILE, _CALLABLE) if name in given]
    if any(name in given for name in _OIDC) or not ways:
        ways.append(_METHOD)
        yield from _oidc_complaints(given)
    if len(ways) > 1:
        yield f"{', '.join(ways)}: a token comes from one of them alone"
    path = given.get(_FILE)
    if path and not _JAVA_PATH.fullmatch(path):  # not quoted: it may be a token
        yield f"{_FILE}: not an absolute path without blanks, which Java's client reads"
    name = given.get(_CALLABLE, "")  # this may be a token, too
    if name and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", name):
        yield f"{_CALLABLE}: not package.module:function"
    try:
        _extensions(given)
    except ValueError:
        yield f"{_EXTENSIONS}: not name=value, several with commas; names are letters"


def unusable(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the files of OAUTHBEARER: those named, and where one is made."""
    path = given.get(_FILE)
    if path and _JAVA_PATH.fullmatch(path):
        try:
            if not Path(path).read_text().strip():
                yield f"{_FILE}: {path}: empty"
        except (OSError, ValueError) as error:
            yield f"{_FILE}: {path}: {getattr(error, 'strerror', None) or 'not a text'}"
    if _CALLABLE in given and not _JAVA_PATH.fullmatch(directory := tempfile.gettempdir()):
        yield (
            f"{_CALLABLE}: its token is a file for Java's client, which cannot read"
            f" {directory}: set TMPDIR to a path of letters, digits and /._~@+-"
        )
    if given.get(_METHOD) == "oidc" and not tls.not_a_path(given, _CA[0]):
        try:
            trust_token_endpoint(given)
        except tls.Unusable as error:
            yield from error.args


def _oidc_complaints(given: Mapping[str, Any]) -> Iterator[str]:
    method = given.get(_METHOD)
    if method != "oidc":
        yield (
            f"{_METHOD}: {'missing: ' if method is None else ''}only 'oidc' (client credentials),"
            f" or a token by {_FILE} or {_CALLABLE}"
        )
        return
    for name in (_CLIENT, _SECRET, _URL):
        if name not in given:
            yield f"{name}: missing: {_METHOD}: oidc needs it"
    if url := given.get(_URL):
        yield from _url_complaints(url)
    if wrong := tls.not_a_path(given, _CA[0]):
        yield wrong


def _url_complaints(url: str) -> Iterator[str]:
    try:
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError
        parts = urlsplit(url)
        host, login = parts.hostname or "", parts.username or parts.password or "@" in parts.netloc
        _ = parts.port
    except ValueError:
        yield f"{_URL}: no URL"
        return
    if login:  # it is not quoted
        yield f"{_URL}: holds a '@': a login belongs in {_CLIENT} and {_SECRET}"
    elif parts.scheme not in ("https", "http") or not host:
        yield f"{_URL}: not https://host/path"
    elif parts.scheme == "http" and not _is_loopback(host):
        yield (
            f"{_URL}: {_without_query(url)!r}: the client's secret would be sent in clear; use"
            " https"
        )


def _without_query(url: str) -> str:
    """Return a URL as messages show it: a query may hold a secret."""
    return re.split("[?#]", url, maxsplit=1)[0]


class _WithoutQueries(logging.Filter):
    """Cuts the URLs of httpx, which logs each of them at INFO, Airflow's level."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.args = tuple(
            _without_query(str(each)) if type(each).__name__ == "URL" else each
            for each in record.args or ()
        )
        return True


_WITHOUT_QUERIES = _WithoutQueries()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _extensions(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the extensions by name. ValueError if they cannot be sent."""
    pairs = [each.strip() for each in given.get(_EXTENSIONS, "").split(",") if each.strip()]
    if not all(re.fullmatch(r"(?!auth=)[A-Za-z]+=[\x21-\x7e \t\r\n]+", each) for each in pairs):
        raise ValueError
    return dict(pair.split("=", 1) for pair in pairs)


def trust_token_endpoint(given: Mapping[str, Any]) -> ssl.SSLContext:
    """Return what the token endpoint is checked with: `https.ca`, or the connection's own CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.trust_authority(context, given, _ca_name(given))
    return context


def _ca_name(given: Mapping[str, Any]) -> str:
    # Before the system's CAs comes that of the connection: brokers and a team's own token endpoint
    # usually have one private CA.
    return "https.ca" if any(name in given for name in _CA) else "ssl.ca"


class TokenProvider:
    """Gives kafka-python a token for each login. `cluster` is what errors name."""

    error: TidegateError | None = None  # of the last call. kafka-python drops it

    def __init__(self, given: Mapping[str, str], cluster: str) -> None:
        self.given, self.cluster = given, cluster
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def token(self) -> str:
        """Return a valid token.

        Raises NotAuthenticated if these settings are refused, BrokerUnreachable if a retry may
        help, and ConfigurationError.
        """
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._token, lifetime = self.obtain_token()
                except TidegateError as error:
                    self.error = error
                    raise
                self.error = None
                self._until = time.monotonic() + _USED * lifetime
            return self._token

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a kafka-python client. A token was obtained."""
        from kafka.net.sasl.oauth import AbstractTokenProvider

        AbstractTokenProvider.register(TokenProvider)
        # Without a token kafka-python would try for 8 seconds, and say that no broker answered.
        self.token()
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": self}

    def extensions(self) -> dict[str, str]:
        return _extensions(self.given)

    def obtain_token(self) -> tuple[str, float]:
        """Return a token, and for how many seconds it may be kept."""
        if path := self.given.get(_FILE):
            return self.check_token(self._read(path), _FILE), 0.0
        if name := self.given.get(_CALLABLE):
            module, _, function = name.partition(":")
            return self.check_token(self.call(module, function, _CALLABLE), name), 0.0
        return self._requested()

    def _read(self, path: str) -> str:
        try:
            return Path(path).read_text().strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a text"
            raise ConfigurationError(f"{self.cluster}: {_FILE}: {path}: {reason}") from None

    def call(self, module: str, function: str, setting: str, *args: str) -> Any:
        where = f"{self.cluster}: {setting}: {module}:{function}"
        try:
            call = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"{where}: {error}") from None
        try:
            return call(*args)
        except Exception as error:  # most often no connection. Its text may hold a secret
            raise BrokerUnreachable(f"{where} failed: {type(error).__name__}") from None

    def check_token(self, token: Any, source: str) -> str:
        """Return a token that is one. NotAuthenticated if it has expired."""
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise NotAuthenticated(f"{self.cluster}: {source}: it gave no token")
        expiry = _expiry(token)
        if expiry is not None and expiry <= time.time():
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expiry))
            raise NotAuthenticated(f"{self.cluster}: {source}: its token expired at {at}")
        return token

    def _requested(self) -> tuple[str, float]:
        """Return a token by the client credentials, and its lifetime in seconds."""
        import httpx

        logging.getLogger("httpx").addFilter(_WITHOUT_QUERIES)  # once, however often

        given, url = self.given, self.given[_URL]
        where = f"{self.cluster}: the token endpoint {_without_query(url)}"
        form = {"grant_type": "client_credentials"}
        if scope := given.get(_SCOPE):
            form["scope"] = scope
        try:
            answer = httpx.post(
                url,
                data=form,
                auth=(given[_CLIENT], given[_SECRET]),
                headers={"Accept": "application/json"},
                verify=trust_token_endpoint(given),
                timeout=_PATIENCE,
                trust_env=url.startswith("https:"),  # in clear no proxy may see the secret
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                reason = str(error).rpartition("certificate verify failed: ")[2]
                reason = reason.partition(" (_ssl")[0]
                raise NotAuthenticated(
                    f"{where}: its certificate is not trusted: {reason}; check https.ca.location,"
                    " or ssl.ca.location in its place"
                ) from None
            raise BrokerUnreachable(f"{where} does not answer: {type(error).__name__}") from None
        status = answer.status_code
        try:
            document = answer.json()
            reason = str(document.get("error", ""))
        except (ValueError, AttributeError):
            document, reason = {}, ""
        is_busy = status in (408, 429) or status >= 500 or reason in _BUSY
        if is_busy or (status == 200 and not document):  # another page in its place
            raise BrokerUnreachable(f"{where} answers {status} without a token; try again later")
        if status != 200:
            named = f" {reason}" if re.fullmatch("[a-z_]{1,40}", reason) else ""
            raise NotAuthenticated(
                f"{where} refused the client: {status}{named}; check {_CLIENT}, {_SECRET} and"
                f" {_SCOPE} of the connection"
            )
        token = self.check_token(document.get("access_token"), "the token endpoint")
        lifetime = document.get("expires_in")
        known = isinstance(lifetime, int | float) and lifetime > 0
        return token, float(lifetime) if known else 0.0


def _expiry(token: str) -> float | None:
    """Return when a JWT expires, in seconds since 1970. None if that cannot be seen."""
    try:
        _, body, _ = token.split(".")
        return float(json.loads(base64.urlsafe_b64decode(body + "=="))["exp"])
    except (ValueError, KeyError, TypeError):
        return None


class OAuthBearer(Mechanism):
    """A token of OAuth, which somebody else gives."""

    name = "OAUTHBEARER"
    check = "the token: its issuer, audience, scope and expiry"
    allowed: ClassVar[tuple[str, ...]] = NAMES
    refused: ClassVar[Mapping[str, str]] = {
        "sasl.oauthbearer.config": "tokens without a signature are for tests of librdkafka",
        "enable.sasl.oauthbearer.unsecure.jwt": "tokens without a signature are for tests",
    }

    def complaints(self, given: Mapping[str, Any]) -> Iterator[str]:
        return complaints(given)

    def unusable(self, given: Mapping[str, Any]) -> Iterator[str]:
        return unusable(given)

    def identity(self, given: Mapping[str, Any]) -> str:
        if client := given.get(_CLIENT):
            return f"as client {client}"
        path, function = given.get(_FILE), given.get(_CALLABLE)
        return f"with the token in {path}" if path else f"with the token of {function}"

    def session(self, given: Mapping[str, str], cluster: str) -> TokenProvider:
        return TokenProvider(given, cluster)

    def for_java(
        self, given: Mapping[str, str], files: PrivateFiles, cluster: str
    ) -> dict[str, str]:
        """Return the options. The token of a function is a file."""
        options = {f"extension_{name}": value for name, value in _extensions(given).items()}
        url = given.get(_URL, "")
        if path := given.get(_FILE):
            url = f"file://{path}"
        elif _CALLABLE in given:
            token = TokenProvider(given, cluster).token()
            url = f"file://{files.add('.jwt', token.encode())}"
        else:
            options |= {"clientId": given[_CLIENT], "clientSecret": given[_SECRET]}
            if scope := given.get(_SCOPE):
                options["scope"] = scope
            if certificates := tls.ca_file(given, files, _ca_name(given)):
                options["ssl.truststore.type"] = "PEM"
                options["ssl.truststore.location"] = certificates
        return {
            "kafka.sasl.jaas.config": jaas(_MODULE, options),
            "kafka.sasl.login.callback.handler.class": _HANDLER,
            "kafka.sasl.oauthbearer.token.endpoint.url": url,
        }
