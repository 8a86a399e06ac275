"""What is translated may be anything: no secret is shown, and nothing takes long or raises."""

import contextlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.translated import CANARY, SOURCE, TOPIC, keys, loaded, of
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import ConfigurationError
from tidegate.pipelines.translation import MOST_BYTES, translate
from tidegate.settings.table import TABLE

# What is none of these


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "neither the options"),
        (b"\n \t\n", "neither the options"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not text in UTF-8"),
        (b"subscribe=a\0b", "it has a byte 0"),
        (b"x" * (MOST_BYTES + 1), "larger than 128 KiB"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "neither the options"),
        (b'{"a":' * 20_000, "not JSON"),
        (b'{"connector.class": "io.debezium.X"}', "neither the options"),
        (b'{"connector.class": null}', "neither the options"),
        (b'{"connector.class": "x.S3SinkSource"}', "neither the options"),
        (b"name: orders\nkind: ingest\n", "neither the options"),
        (b"Dear all, the meeting is on Monday.", "neither the options"),
        (b'spark.read.format("kafka").option("subscribe", "t").load()', "a program in Python or"),
        (b'val kafkaParams = Map("group.id" -> "g")', "a program in Python or Scala"),
        (b"import kafka\nsubscribe = 't'\n", "a program in Python or Scala"),
        (b"".join(b"spark.x%d=1\n" % n for n in range(4_000)), "more settings than"),
    ],
)
def test_what_is_not_translated(data: bytes, says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        translate(data)


# Secrets

PLACES = [
    *({**TOPIC, f"kafka.{name}": CANARY} for name in (
        "sasl.jaas.config", "ssl.keystore.password", "ssl.truststore.location", "ssl.key.password",
        "bootstrap.servers", "security.protocol", "sasl.mechanism", "ssl.keystore.key",
        "sasl.kerberos.service.name", "key.deserializer", "auto.offset.reset", "nonsense",
        "fetch.min.bytes", "check.crcs", "isolation.level",
    )),
    *({**TOPIC, name: CANARY} for name in (
        "startingTimestamp", "endingOffsets", "failOnDataLoss", "maxOffsetsPerTrigger",
        "checkpointLocation", "path", "trigger", "outputMode", "nonsense", "spark.master",
        "startingOffsetsByTimestampStrategy", "spark.submit.deployMode", "minPartitions",
        "spark.hadoop.fs.s3a.secret.key", "spark.x.password", "spark.streaming.x",
        "spark.kafka.clusters.a.sasl.token.mechanism", "group.id.", "includeHeaders", "assign",
    )),
    {**TOPIC, CANARY: "1"},
    {**TOPIC, f"{CANARY} x": "1"},
    {**TOPIC, "spark.driver.extraJavaOptions": f"-Djavax.net.ssl.keyStorePassword={CANARY}"},
    {**TOPIC, "spark.x": f"https://user:{CANARY}@host/"},
    {**TOPIC, "kafka.client.rack": f"password={CANARY}"},
    {**TOPIC, "kafka.bootstrap.servers": f"u:{CANARY}@b:9092"},
    {**TOPIC, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI",
     "kafka.ssl.keystore.location": f"/a' ; echo {CANARY}"},
    {"subscribePattern": f"://u:{CANARY}@"},
    *({**SOURCE, name: CANARY} for name in (
        "aws.secret.access.key", "aws.access.key.id", "store.url", "format.class", "mode",
        "value.converter.basic.auth.user.info", "confluent.license", "transforms.x.y", "folders",
        "producer.override.sasl.jaas.config", "producer.override.acks", "kafka.api.secret",
        "s3.sse.customer.key", "s3.poll.interval.ms", "what.is.this", "tasks.max",
    )),
]  # fmt: skip


@pytest.mark.parametrize("form", PLACES, ids=lambda form: list(form)[-1][:40])
@pytest.mark.parametrize("as_properties", [False, True])
def test_a_secret_is_never_shown(form: dict[str, str], as_properties: bool) -> None:
    """Not in the file, its comments, or what is missing."""
    lines = "".join(f"{name}={value}\n" for name, value in form.items())
    made = translate(lines.encode()) if as_properties else of(form)
    assert CANARY not in made.text + "".join(made.missing)


@pytest.mark.parametrize(
    ("settings_", "extra"),
    [
        ({"bootstrap.servers": "a:1,b:2"}, {"bootstrap.servers": "a:1,b:2"}),
        (
            {"metadata.broker.list": "a:1", "security.protocol": "sasl_plaintext",
             "sasl.mechanism": "PLAIN"},
            {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT",
             "sasl.mechanism": "PLAIN", "sasl.username": "USERNAME", "sasl.password": "PASSWORD"},
        ),
        (
            {"bootstrap.servers": "a:1", "security.protocol": "SSL",
             "ssl.truststore.type": "PEM", "ssl.truststore.location": "/etc/ca.pem",
             "ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/etc/me.p12",
             "ssl.keystore.password": CANARY, "ssl.endpoint.identification.algorithm": ""},
            {"bootstrap.servers": "a:1", "security.protocol": "SSL",
             "ssl.ca.location": "/etc/ca.pem", "ssl.keystore.location": "/etc/me.p12",
             "ssl.keystore.password": "PASSWORD", "ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL",
             "sasl.kerberos.service.name": "kafka"},
            {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL",
             "sasl.mechanism": "GSSAPI", "sasl.kerberos.principal": "PRINCIPAL",
             "sasl.kerberos.keytab": "/CLIENT.keytab", "sasl.kerberos.service.name": "kafka"},
        ),
        (
            {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL",
             "sasl.mechanism": "OAUTHBEARER"},
            {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL",
             "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
             "sasl.oauthbearer.client.id": "CLIENT_ID",
             "sasl.oauthbearer.client.secret": "CLIENT_SECRET",
             "sasl.oauthbearer.token.endpoint.url": "https://TOKEN_ENDPOINT"},
        ),
    ],
)  # fmt: skip
def test_the_connection(settings_: dict[str, str], extra: dict[str, str]) -> None:
    """The command in the comment defines one that Tidegate takes; its files are not here."""
    made = of({**TOPIC, **{f"kafka.{name}": value for name, value in settings_.items()}})
    (line,) = (each for each in made.text.splitlines() if "airflow connections add" in each)
    *_, name, flag, form = shlex.split(line, comments=False)
    assert (name, flag) == ("kafka_default", "--conn-json")
    assert json.loads(form) == {"conn_type": "kafka", "extra": extra}
    with contextlib.suppress(ConfigurationError):
        KafkaSettings("kafka_default", extra)
        return
    with pytest.raises(ConfigurationError) as refused:
        KafkaSettings("kafka_default", extra)
    complaints = str(refused.value).splitlines()[1:]
    assert all(each.endswith("No such file or directory") for each in complaints)


# Any mapping of names to values

NAMES = st.one_of(
    st.sampled_from(sorted({each.name for each in TABLE})),
    st.sampled_from(sorted({each.name.removeprefix("kafka.") for each in TABLE})),
    st.sampled_from(sorted({name for form in PLACES for name in form})),
    st.sampled_from(["topic", "endingTimestamp", "startingOffsetsByTimestamp", "name", "topics",
                     "topics.regex", "options", "consumer.override.group.id"]),
    st.text(max_size=20),
)  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["1", "true", "earliest", "t", "a,b", '{"t":{"0":1}}', '{"t":[0]}', "none", "-1", "all"]
    ),
    st.sampled_from(
        ["5 minutes", "raw", "/x", "${X}", "json", "g", "io.confluent.connect.s3.S3SinkConnector",
         "io.confluent.connect.s3.source.S3SourceConnector"]
    ),
    st.integers(), st.booleans(), st.floats(), st.none(),
    st.dictionaries(st.text(max_size=5), st.integers() | st.lists(st.integers()), max_size=3),
)  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipelines")


@settings(max_examples=300, deadline=None)
@given(form=st.dictionaries(NAMES, VALUES, max_size=8), as_properties=st.booleans())
def test_any_settings(form: dict[str, Any], as_properties: bool, directory: Path) -> None:
    """They give a pipeline that is read, one that says what is missing, or a refusal."""
    lines = "".join(f"{name}={value}\n" for name, value in form.items())
    data = lines.encode(errors="replace") if as_properties else json.dumps(form).encode()
    try:
        made = translate(data, "any")
    except ConfigurationError:
        return
    assert isinstance(keys(made), dict)
    if not made.missing:
        loaded(made, directory)


@settings(deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        translate(data)
