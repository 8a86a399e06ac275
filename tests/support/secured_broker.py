"""A real broker with every way to log in that Tidegate supports, a KDC and an issuer of tokens.

The user is `alice`, however it logs in; what it may do, the authorizer's ACLs say. The plaintext
listener is the test's own: its anonymous clients are super users (and so are those of SSL without
a client certificate, which are anonymous, too).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support import certificates
from support import kdc as kdcs
from support.certificates import Authority, Certificate
from support.kdc import Kdc
from support.token_issuer import AUDIENCE, SCOPE, TokenIssuer
from tidegate_local import kafka
from tidegate_local.kafka import Broker
from tidegate_local.ports import free_port

USER = "alice"
# Of this process alone: others on this machine, which run the same tests, have their own.
_MINE = secrets.token_hex(4)
PASSWORD = f"canary-password-{_MINE}"
CLIENT_SECRET = f"canary-client-secret-{_MINE}"
KEY_PASSWORD = f"canary-key-password-{_MINE}"
SECRETS = (PASSWORD, CLIENT_SECRET, KEY_PASSWORD)
"""What may stand nowhere but in a connection; keys and tokens have more in `files`."""

# Name of each listener → its protocol. The last three have certificates that no client may accept.
_LISTENERS = {
    "TLS": "SSL",
    "CERTIFICATE": "SSL",
    "LOGIN": "SASL_SSL",
    "UNENCRYPTED": "SASL_PLAINTEXT",
    "EXPIRED": "SSL",
    "EARLY": "SSL",
    "MISNAMED": "SSL",
}
WAYS = (
    "ssl", "ssl-certificate", "ssl-keystore", "ssl-texts", "plain", "scram-256", "scram-512",
    "scram-unencrypted", "oauth-client", "oauth-loopback", "oauth-file", "oauth-callable",
    "kerberos", "kerberos-unencrypted", "kerberos-cache", "delegation-token",
)  # fmt: skip
"""Every way to log in."""
TOKEN_FILE = "TEST_TOKEN_FILE"
"""The variable with the file whose token `token_of_file` returns."""
_MODULE = "org.apache.kafka.common.security"
_LOGINS = {
    "PLAIN": f'{_MODULE}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "SCRAM-SHA-256": f"{_MODULE}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{_MODULE}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required;",
    "GSSAPI": (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        ' keyTab="{keytab}" principal="kafka/localhost@{realm}";'
    ),
}
_SCRAM = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
# The rights of Tidegate's documentation, on all topics and groups.
_RIGHTS = {
    ("topic", "*"): ("DESCRIBE", "READ", "WRITE", "DESCRIBE_CONFIGS"),
    ("group", "*"): ("READ",),
    ("cluster", "kafka-cluster"): ("DESCRIBE",),
}


@dataclass(frozen=True)
class SecuredBroker:
    """A running broker with its KDC and token issuer; `files` has certificates, keys, keytabs."""

    broker: Broker
    ports: Mapping[str, int]
    files: Path
    authority: Authority
    kdc: Kdc
    issuer: TokenIssuer
    ways: dict[str, dict[str, str]] = field(default_factory=dict)
    """By each of WAYS, the `extra` of its connection."""
    environ: dict[str, str] = field(default_factory=dict)
    """The variables that some of the ways need."""

    @property
    def admin(self) -> str:
        """The address of the super user, without login or encryption."""
        return self.broker.bootstrap

    def address(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def connection(self, listener: str, **settings: str) -> dict[str, str]:
        """Return a connection's `extra` for a listener; `_` in a name stands for `.`."""
        protocol = _LISTENERS[listener]
        extra = {"bootstrap.servers": self.address(listener), "security.protocol": protocol}
        if protocol.endswith("SSL"):
            extra["ssl.ca.location"] = str(self.files / "ca.pem")
        return extra | {name.replace("_", "."): value for name, value in settings.items()}

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file that only its owner may read, and return its path."""
        path = self.files / name
        path.touch(0o600)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def set_password(self, user: str, password: str) -> None:
        """Create a SCRAM user, or change its password."""
        admin = AdminClient({"bootstrap.servers": self.admin})
        for mechanism in _SCRAM:  # a request may change a user once
            info = ScramCredentialInfo(mechanism, 4096)
            wanted = [UserScramCredentialUpsertion(user, info, password.encode())]
            for done in admin.alter_user_scram_credentials(wanted).values():
                done.result(30)

    def allow(self, user: str, kind: str, name: str, *operations: str) -> None:
        """Allow operations on a topic, a group or the cluster (`kafka-cluster`); `*` is all."""
        admin = AdminClient({"bootstrap.servers": self.admin})
        bindings = [
            AclBinding(*_resource(kind, name), f"User:{user}", "*", AclOperation[operation],
                       AclPermissionType.ALLOW)
            for operation in operations
        ]  # fmt: skip
        for done in admin.create_acls(bindings).values():
            done.result(30)
        until = time.monotonic() + 10
        while not set(bindings) <= set(admin.describe_acls(_filter(user)).result(30)):
            assert time.monotonic() < until
            time.sleep(0.02)

    def withdraw(self, user: str, kind: str = "any", name: str | None = None,
                 operation: str = "ANY") -> None:  # fmt: skip
        """Withdraw what was allowed to a user: all of it, or what matches."""
        admin, which = AdminClient({"bootstrap.servers": self.admin}), _filter(
            user, kind, name, operation
        )  # fmt: skip
        for done in admin.delete_acls([which]).values():
            done.result(30)
        until = time.monotonic() + 10
        while admin.describe_acls(which).result(30):
            assert time.monotonic() < until
            time.sleep(0.02)


def token_of_file() -> str:
    """Return a token; a connection may name this function."""
    return Path(os.environ[TOKEN_FILE]).read_text()


def _resource(kind: str, name: str) -> tuple[ResourceType, str, ResourcePatternType]:
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
    return kinds.get(kind, ResourceType.BROKER), name, ResourcePatternType.LITERAL


def _filter(
    user: str, kind: str = "any", name: str | None = None, operation: str = "ANY"
) -> AclBindingFilter:
    wanted = ResourceType.ANY if kind == "any" else _resource(kind, "")[0]
    return AclBindingFilter(
        wanted, name, ResourcePatternType.ANY, f"User:{user}", None, AclOperation[operation],
        AclPermissionType.ANY,
    )  # fmt: skip


@contextmanager
def running(home: Path, settings: Mapping[str, str] | None = None) -> Iterator[SecuredBroker]:
    """Start broker, KDC and issuer; `settings` are added to server.properties."""
    files = home / "files"
    files.mkdir(parents=True)
    authority = Authority.create()
    issuer = TokenIssuer({USER: CLIENT_SECRET}, _keystore(files, "issuer", authority.server()))
    kdc = kdcs.start(home / "kdc")
    try:
        broker, ports = _start(home / "kafka", files, authority, kdc, issuer, settings or {})
        secured = SecuredBroker(broker, ports, files, authority, kdc, issuer)
        secured.set_password(USER, PASSWORD)
        for (kind, name), operations in _RIGHTS.items():
            secured.allow(USER, kind, name, *operations)
        secured.ways.update(_ways(secured))
        assert secured.ways.keys() == set(WAYS)
        yield secured
    finally:
        kafka.stop(home / "kafka")
        kdc.stop()
        issuer.stop()


def _start(
    home: Path, files: Path, authority: Authority, kdc: Kdc, issuer: TokenIssuer,
    settings: Mapping[str, str],
) -> tuple[Broker, dict[str, int]]:  # fmt: skip
    (files / "ca.pem").write_text(authority.pem)
    stores = dict.fromkeys(("TLS", "CERTIFICATE", "LOGIN"), authority.server())
    stores["EXPIRED"] = authority.server(days=certificates.EXPIRED)
    stores["EARLY"] = authority.server(days=certificates.NOT_YET_VALID)
    stores["MISNAMED"] = authority.server(["elsewhere.example"])
    ports = {name: free_port() for name in _LISTENERS}
    plain, control = free_port(), free_port()
    inner = {"PLAINTEXT": plain, "CONTROLLER": control}
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in (inner | ports).items())
    advertised = [f"{name}://localhost:{port}" for name, port in ports.items()]
    advertised += [f"{name}://127.0.0.1:{port}" for name, port in inner.items()]
    protocols = dict.fromkeys(inner, "PLAINTEXT") | _LISTENERS
    properties = {
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{control}",
        "listeners": listeners,
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "listener.name.certificate.ssl.client.auth": "required",
        "listener.name.certificate.ssl.enabled.protocols": "TLSv1.3",
        "sasl.kerberos.service.name": "kafka",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": issuer.name,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "canary-token-key-88f4",
    }
    for name, certificate in stores.items():
        prefix = f"listener.name.{name.lower()}.ssl.keystore"
        properties[f"{prefix}.type"] = "PEM"
        properties[f"{prefix}.location"] = str(_keystore(files, f"server-{name}", certificate))
    keytab = kdc.keytab("kafka/localhost")
    for name in ("LOGIN", "UNENCRYPTED"):
        prefix = f"listener.name.{name.lower()}"
        properties[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(_LOGINS)
        properties[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = (
            f"{_MODULE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        )
        for mechanism, login in _LOGINS.items():
            login = login.replace("{keytab}", str(keytab)).replace("{realm}", kdc.realm)
            properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = login
    options = [
        os.environ.get("JDK_JAVA_OPTIONS", ""),
        f"-Djava.security.krb5.conf={kdc.krb5_conf}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.jwks_url}",
    ]
    with mock.patch.dict(os.environ, JDK_JAVA_OPTIONS=" ".join(options)):
        return kafka.start(home, port=plain, settings=properties | dict(settings)), ports


def _keystore(files: Path, name: str, certificate: Certificate) -> Path:
    path = files / f"{name}.pem"
    path.write_text(certificate.keystore_pem)
    return path


def _ways(secured: SecuredBroker) -> dict[str, dict[str, str]]:
    """Return all ways to log in as alice."""
    client = secured.authority.client(USER, is_rsa=True)
    chain, _ = client.write(secured.files, "client")
    encrypted = secured.write("client-encrypted.key", client.key_pem(password=KEY_PASSWORD))
    keytab = secured.kdc.keytab(USER)
    password = {"sasl.username": USER, "sasl.password": PASSWORD}
    oidc = {
        "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": USER, "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.scope": SCOPE,
    }  # fmt: skip
    kerberos = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
    principal = {
        "sasl.kerberos.principal": f"{USER}@{secured.kdc.realm}",
        "sasl.kerberos.keytab": str(keytab),
    }
    tls, mutual = secured.connection("TLS"), secured.connection("CERTIFICATE")
    login, unencrypted = secured.connection("LOGIN"), secured.connection("UNENCRYPTED")
    text = {key: value for key, value in mutual.items() if key != "ssl.ca.location"}
    token = secured.write("token", secured.issuer.token(USER, lifetime=3600))
    oauth = {"sasl.mechanism": "OAUTHBEARER"}
    secured.environ["KRB5_CONFIG"] = str(secured.kdc.krb5_conf)
    secured.environ["KRB5CCNAME"] = str(secured.kdc.ticket_cache(USER, keytab))
    secured.environ[TOKEN_FILE] = token
    return {
        "ssl": tls,
        "ssl-certificate": mutual
        | {
            "ssl.certificate.location": str(chain),
            "ssl.key.location": encrypted,
            "ssl.key.password": KEY_PASSWORD,
        },
        "ssl-keystore": mutual
        | {
            "ssl.keystore.location": secured.write("client.p12", client.pkcs12(KEY_PASSWORD)),
            "ssl.keystore.password": KEY_PASSWORD,
        },
        "ssl-texts": text
        | {
            "ssl.ca.pem": secured.authority.pem,
            "ssl.certificate.pem": client.chain_pem,
            "ssl.key.pem": client.key_pem(),
        },
        "plain": login | {"sasl.mechanism": "PLAIN"} | password,
        "scram-256": login | {"sasl.mechanism": "SCRAM-SHA-256"} | password,
        "scram-512": login | {"sasl.mechanism": "SCRAM-SHA-512"} | password,
        "scram-unencrypted": unencrypted | {"sasl.mechanism": "SCRAM-SHA-512"} | password,
        "oauth-client": login
        | oidc
        | {"sasl.oauthbearer.token.endpoint.url": secured.issuer.https_token_url},
        "oauth-loopback": unencrypted
        | oidc
        | {"sasl.oauthbearer.token.endpoint.url": secured.issuer.token_url},
        "oauth-file": login | oauth | {"tidegate.oauthbearer.token.file": token},
        "oauth-callable": login
        | oauth
        | {"tidegate.oauthbearer.token.callable": f"{__name__}:{token_of_file.__name__}"},
        "kerberos": login | kerberos | principal,
        "kerberos-unencrypted": unencrypted | kerberos | principal,
        "kerberos-cache": login | kerberos,
        "delegation-token": login
        | {"sasl.mechanism": "SCRAM-SHA-512"}
        | password
        | {"tidegate.delegation_token": "true"},
    }
