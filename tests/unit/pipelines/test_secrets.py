"""No secret in Spark settings, which are command-line arguments, and none in a complaint."""

from pathlib import Path
from textwrap import dedent

import pytest

from support.calls import staging
from tidegate.errors import ConfigurationError
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import parse_spec

LEAST = {"name": "flights", "kind": "ingest", "topics": ["flights"], "lake": "/lake"}
EGRESS = {
    "name": "back", "kind": "egress", "lake": "/lake",
    "source": {"lake": "flights"}, "target": {"topic": "copy"},
}  # fmt: skip
SECRET = "hunter2"

REFUSED = {
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.hadoop.fs.s3a.access.key": SECRET,
    "spark.hadoop.fs.s3a.session.token": SECRET,
    "spark.hadoop.fs.s3a.bucket.b.session.token": SECRET,
    "spark.hadoop.fs.s3a.encryption.key": SECRET,
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": SECRET,
    "spark.hadoop.fs.azure.sas.fixed.token.a": SECRET,
    "spark.hadoop.fs.gs.auth.service.account.private.key": SECRET,
    "spark.ssl.keyPassword": SECRET,
    "spark.kafka.clusters.a.kafka.sasl.jaas.config": SECRET,
    "spark.sql.catalog.a.credential": SECRET,
    "spark.executorEnv.API_KEY": SECRET,
    "spark.driver.extraJavaOptions": f"-Xmx1g -Djavax.net.ssl.trustStorePassword={SECRET}",
    "spark.executor.extraJavaOptions": f"-Dfs.s3a.session.token={SECRET}",
    "spark.executor.defaultJavaOptions": f'-Da="required username=u password = {SECRET};"',
    "spark.jars": f"https://user:{SECRET}@host/a.jar",
    "spark.jars.repositories": f"https://host/a?sig={SECRET}",
    "spark.executorEnv.DB_PASS": SECRET,
    "spark.executorEnv.dbPass": SECRET,
    "spark.executorEnv.PGPWD": SECRET,
    "spark.executorEnv.DB_PW": SECRET,
    "spark.executorEnv.AWS_CREDENTIALS": f"AKIA:{SECRET}",
    "spark.executorEnv.SECRET_PROFILE": SECRET,
    "spark.driver.defaultJavaOptions": f"-Xmx1g -Ddb.pass={SECRET}",
    "spark.x": f"password: {SECRET}",
    # An account's name may be any word.
    "spark.hadoop.fs.azure.account.key.profile": SECRET,
    "spark.hadoop.fs.azure.account.key.mytype": SECRET,
    "spark.hadoop.fs.azure.sas.fixed.token.datapath": SECRET,
    "spark.hadoop.fs.azure.account.oauth2.client.secret.location": SECRET,
    # The name asks for a reference, the value is none.
    "spark.kubernetes.executor.secretKeyRef.DB": SECRET,
    "spark.kubernetes.driver.secrets.kafka-tls": SECRET,
    "spark.kubernetes.container.image.pullSecrets": f'{{"auths": "{SECRET}"}}',
    "spark.hadoop.fs.s3a.bucket.b.encryption.key": f"alias/{SECRET}+/YUtBqLSyDyzHNn9aSVBfEzg0Hkm4=",
    "spark.hadoop.parquet.encryption.key.list": f"k:{SECRET}",
    "spark.ssl.keyStorePassword": f"alias/{SECRET}",
}
ACCEPTED = {
    "spark.hadoop.fs.s3a.aws.credentials.provider": "org.example.Provider",
    "spark.hadoop.hadoop.security.credential.provider.path": "jceks://file/keys.jceks",
    "spark.hadoop.fs.azure.account.keyprovider.a": "org.example.Provider",
    "spark.hadoop.fs.azure.account.auth.type": "OAuth",
    "spark.hadoop.fs.azure.sas.token.provider.type": "org.example.Provider",
    "spark.hadoop.fs.azure.account.oauth2.refresh.token.endpoint": "https://host/token",
    "spark.hadoop.fs.s3a.encryption.key": "arn:aws:kms:eu-west-1:1:key/2",
    "spark.kubernetes.authenticate.driver.oauthTokenFile": "/run/token",
    "spark.security.credentials.hive.enabled": "false",
    "spark.authenticate.secretBitLength": "256",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key",
    "spark.ssl.keyStore": "/keys/store",
    "spark.ssl.keyStoreType": "JKS",
    "spark.driver.extraJavaOptions": "-Djavax.net.ssl.trustStore=/keys/trust -XX:+UseG1GC",
    "spark.sql.session.localRelationCacheThreshold": "1",
    "spark.executor.memory": "1g",
    "spark.io.encryption.keySizeBits": "256",
    "spark.io.encryption.keygen.algorithm": "HmacSHA1",
    "spark.hadoop.yarn.resourcemanager.delegation.token.renew-interval": "86400000",
    "spark.hadoop.dfs.namenode.delegation.token.max-lifetime": "604800000",
    "spark.hadoop.fs.s3a.bucket.b.c.encryption.key": "alias/my-key",
    "spark.hadoop.fs.s3a.server-side-encryption.key": "1234abcd-12ab-34cd-56ef-1234567890ab",
    "spark.redaction.string.regex": r"password=\S+",
    "spark.sql.redaction.options.regex": "(?i)token=.*",
    "spark.kubernetes.executor.label.token": "x",
    "spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY": "s3-credentials:secret-key",
    "spark.kubernetes.driver.secretKeyRef.DB_PASS": "db:pw",
    "spark.kubernetes.executor.secrets.kafka-tls": "/etc/kafka-tls",
    "spark.kubernetes.container.image.pullSecrets": "regcred, other.cred",
    "spark.kubernetes.kerberos.tokenSecret.name": "tokens",
    "spark.kubernetes.kerberos.tokenSecret.itemKey": "hadoop.token",
    "spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS": "/keys/google.json",
    "spark.shuffle.sort.bypassMergeThreshold": "200",
    "spark.x.bypass": "1",
    "spark.hadoop.fs.azure.account.oauth2.client.endpoint.a.dfs.core.windows.net": "https://h/t",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_secret_among_spark_settings_is_refused_when_the_file_is_read(name: str) -> None:
    """The setting is named, its value is not; also where the settings do not come from a file."""
    conf = {name: REFUSED[name]}
    with pytest.raises(ValueError) as refused:
        parse_spec({**LEAST, "spark": {"conf": conf}})
    with pytest.raises(ConfigurationError) as at_submit:
        staging(Path("/private/job.json"), conf, 1, name="x")
    for message in (str(refused.value), str(at_submit.value)):
        assert name in message
        assert "process list" in message
        assert SECRET not in message


def test_settings_of_tokens_are_refused_when_the_file_is_read() -> None:
    """With or without a token in the connection: Spark's default regex matches every broker."""
    name = "spark.kafka.clusters.x.auth.bootstrap.servers"
    with pytest.raises(ValueError, match=rf"spark.conf: {name}: refused: Tidegate sets it"):
        parse_spec({**LEAST, "spark": {"conf": {name: "c:9093"}}})


@pytest.mark.parametrize("name", ACCEPTED)
def test_settings_that_only_say_where_a_secret_is_are_accepted(name: str) -> None:
    """Providers, files, kinds, numbers and switches are no secrets."""
    spec = parse_spec({**LEAST, "spark": {"conf": {name: ACCEPTED[name]}}})
    assert spec.spark.conf == {name: ACCEPTED[name]}


@pytest.mark.parametrize(
    "change",
    [
        {"target": {"topic": "a", "topics": ["b"], "password": SECRET}},
        {"target": {"kafka": {"sasl.password": SECRET}, "topic": "a"}},
        {"target": {"producer": {"sasl.jaas.config": SECRET}}},
        {"target": {"topic": "a", "producer": SECRET}},
        {"target": {"topic": "a", "producer": {"sasl.password": [SECRET]}}},
        {"target": [SECRET]},
        {"target": SECRET},
        {"source": {"path": "/in", "options": {"password": {"a": SECRET}}}},
        {"source": {"password": SECRET}},
        {"spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": {"a": SECRET}}}},
        {"spark": {"conf": SECRET}},
        {"spark": SECRET},
        {"password": SECRET},
        {"order_by": {"password": SECRET}},
        {"kind": {"password": SECRET}},
        {"name": {"password": SECRET}},
        {"lake": f"s3://user:{SECRET}@bucket"},
        {"source": {"path": f"s3://user:{SECRET}@bucket/in", "format": "text"}},
    ],
)
def test_no_complaint_quotes_a_secret(tmp_path: Path, change: dict[str, object]) -> None:
    """Complaints stand in the DAG's documentation and in terminals: no mapping is quoted, and no
    value where values may be secret.
    """
    path = tmp_path / "back.yaml"
    path.write_text(repr({**EGRESS, **change}))
    with pytest.raises(ConfigurationError) as refused:
        pipeline_files.load_spec(path, {})
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.to_json())
    assert next(iter(change)) in str(refused.value)


@pytest.mark.parametrize(
    "line",
    [
        f'password: "{SECRET}',
        f"password: *{SECRET}",
        f"password: !{SECRET} x",
        f"password: a: {SECRET}",
        f"password: '\\x' {SECRET}",
        f"password: @{SECRET}",
        f"password: &{SECRET} a\nother: &{SECRET} b",
    ],
)
def test_broken_yaml_is_located_and_not_quoted(tmp_path: Path, line: str) -> None:
    """The message names line and column; the parser's own would show the text around it."""
    path = tmp_path / "back.yaml"
    path.write_text(dedent(f"name: back\n{line}\n"))
    with pytest.raises(ConfigurationError) as refused:
        pipeline_files.load_spec(path, {})
    assert SECRET not in str(refused.value)
    assert "line " in str(refused.value) or "password: " in str(refused.value)


@pytest.mark.parametrize("level", ["DEBUG", "trace", "All"])
def test_a_log_level_that_shows_the_login_is_refused(level: str) -> None:
    """Of OAuth, Spark's connector logs the client secret."""
    with pytest.raises(ValueError, match=r"spark.log.level: .* would log the login"):
        parse_spec({**LEAST, "spark": {"conf": {"spark.log.level": level}}})
    parse_spec({**LEAST, "spark": {"conf": {"spark.log.level": "INFO"}}})
