"""A broker that users log in to by SCRAM, with or without TLS, and that gives out tokens."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.certificates import Authority
from tidegate_local import kafka
from tidegate_local.ports import free_port

USER = "alice"
PASSWORD = f"canary-scram-{secrets.token_hex(8)}"
"""Unique, so that a scan of all processes finds no other test run's."""
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


@dataclass(frozen=True)
class ScramBroker:
    """`bootstrap` is without a login, for what a test does itself; `extra` is a connection's."""

    bootstrap: str
    extra: Mapping[str, Any]


@contextlib.contextmanager
def running(
    home: Path, *, mechanism: str, tls: bool, settings: Mapping[str, str] | None = None
) -> Iterator[ScramBroker]:
    """Start a broker with one user, and end it."""
    home.mkdir()
    plain, controller, port = free_port(), free_port(), free_port()
    listeners = ",".join(
        f"{name}://127.0.0.1:{each}"
        for name, each in (("PLAINTEXT", plain), ("CONTROLLER", controller), ("LOGIN", port))
    )
    protocol = "SASL_SSL" if tls else "SASL_PLAINTEXT"
    jaas = f"listener.name.login.{mechanism.lower()}.sasl.jaas.config"
    ca = Authority.create()
    (home / "ca.pem").write_text(ca.pem)
    (home / "server.pem").write_text(ca.server().keystore_pem)
    store = {"type": "PEM", "location": str(home / "server.pem")}
    try:
        broker = kafka.start(
            home,
            port=plain,
            settings={
                "listeners": listeners,
                "advertised.listeners": listeners,
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
                "listener.security.protocol.map": (
                    f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:{protocol}"
                ),
                "listener.name.login.sasl.enabled.mechanisms": mechanism,
                jaas: _MODULE,
                **{f"listener.name.login.ssl.keystore.{k}": v for k, v in store.items() if tls},
                "delegation.token.secret.key": secrets.token_hex(16),
                **(settings or {}),
            },
        )
        _add_user(broker.bootstrap, _MECHANISMS[mechanism])
        extra = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        yield ScramBroker(
            broker.bootstrap, {**extra, "ssl.ca.location": str(home / "ca.pem")} if tls else extra
        )
    finally:
        kafka.stop(home)


def _add_user(bootstrap: str, mechanism: ScramMechanism) -> None:
    credential = ScramCredentialInfo(mechanism, 4096)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    user = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
    for done in admin.alter_user_scram_credentials([user]).values():
        done.result(30)
