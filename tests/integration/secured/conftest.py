"""What the tests of secured connections share."""

import pytest

from support import spark_session
from support.secured_broker import SecuredBroker


@pytest.fixture
def login(secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch) -> SecuredBroker:
    """The secured broker, with the environment that Kerberos and tokens need.

    The Spark session of the tests was started without it: a process of its own would get the
    realm by a Java option.
    """
    for name, value in secured.environ.items():
        monkeypatch.setenv(name, value)
    java = spark_session.shared()._jvm
    java.java.lang.System.setProperty("java.security.krb5.conf", str(secured.kdc.krb5_conf))
    return secured
