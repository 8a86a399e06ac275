"""A real Kerberos KDC (Hadoop's MiniKdc) in a JVM of its own, with keytabs and ticket caches."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from support import locked_jars
from tidegate.launch import jars
from tidegate_local.ports import free_port


@dataclass(frozen=True)
class Kdc:
    """A running KDC; files that it makes are in `home`. Principals are of its realm."""

    home: Path
    krb5_conf: Path
    realm: str
    _gateway: JavaGateway
    _server: Any
    _process: subprocess.Popen[bytes]

    def keytab(self, principal: str) -> Path:
        """Create a principal, and return a keytab with its keys."""
        path = self.home / f"{principal.replace('/', '-')}.keytab"
        names = self._gateway.new_array(self._gateway.jvm.java.lang.String, 1)
        names[0] = principal
        self._server.createPrincipal(self._gateway.jvm.java.io.File(str(path)), names)
        return path

    def ticket_cache(self, principal: str, keytab: Path) -> Path:
        """Log a principal in, and return a cache with its ticket, as kinit writes one."""
        path, jvm = keytab.with_suffix(".ccache"), self._gateway.jvm
        client = jvm.org.apache.kerby.kerberos.kerb.client.KrbClient(
            jvm.java.io.File(str(self.krb5_conf.parent))
        )
        client.init()
        ticket = client.requestTgt(f"{principal}@{self.realm}", jvm.java.io.File(str(keytab)))
        client.storeTicket(ticket, jvm.java.io.File(str(path)))
        return path

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take connections, and answer none."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def skewed(self) -> Iterator[None]:
        """Take every client's clock for wrong: no difference is small enough."""
        field = self._server.getClass().getDeclaredField("simpleKdc")
        field.setAccessible(True)
        config = field.get(self._server).getKdcConfig()
        skew = self._gateway.jvm.org.apache.kerby.kerberos.kerb.server.KdcConfigKey
        config.setLong(skew.ALLOWABLE_CLOCKSKEW, -1)
        try:
            yield
        finally:
            config.setLong(skew.ALLOWABLE_CLOCKSKEW, 300)

    def configuration_without_kdc(self) -> Path:
        """Return a krb5.conf whose KDC refuses connections."""
        path = self.home / "away" / "krb5.conf"
        path.parent.mkdir(exist_ok=True)
        text = self.krb5_conf.read_text()
        path.write_text(text.replace(f":{self._server.getPort()}", f":{free_port()}"))
        return path

    def stop(self) -> None:
        self._gateway.shutdown()
        self._process.kill()
        self._process.wait()


def wrong_keytab(right: Path) -> Path:
    """Return a keytab with the same principals as another, and other keys."""
    data, at = bytearray(right.read_bytes()), 2  # after the version of the format
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        for each in range(end - 12, end - 4):  # before the last four bytes, the key's version
            data[each] ^= 0xFF
        at = end
    path = right.with_suffix(".wrong.keytab")
    path.write_bytes(data)
    return path


def start(home: Path) -> Kdc:
    """Start a KDC; it ends with this process."""
    home.mkdir(parents=True, exist_ok=True)
    class_path = os.pathsep.join(map(str, locked_jars.fetched("minikdc")))
    with (home / "log").open("wb") as log:
        port, secret, process = launch_gateway(
            classpath=class_path, java_path=str(jars.find_java()), die_on_exit=True,
            enable_auth=True,
            javaopts=["-Xmx128m", "-XX:+UseSerialGC"], redirect_stderr=log, return_proc=True,
        )  # fmt: skip
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True)
    )
    kdc = gateway.jvm.org.apache.hadoop.minikdc.MiniKdc
    settings = kdc.createConf()
    settings.setProperty("kdc.bind.address", "localhost")
    server = kdc(settings, gateway.jvm.java.io.File(str(home)))
    server.start()
    krb5_conf = Path(server.getKrb5conf().getAbsolutePath())
    return Kdc(home, krb5_conf, server.getRealm(), gateway, server, process)
