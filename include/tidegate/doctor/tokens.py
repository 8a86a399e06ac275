"""The doctor's check of delegation tokens. It asks no broker."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.doctor.check import Line, failure, ok
from tidegate.doctor.connection_lookup import KafkaLookup, SparkLookup, found
from tidegate.launch import token_settings
from tidegate.pipelines.spec import Spec


def check_tokens(
    spec: Spec,
    kafka: KafkaLookup,
    look_up: SparkLookup,
    source: KafkaLookup | None,
) -> Iterator[Line]:
    """Check that Spark can use the tokens of a pipeline's connections. Nothing without tokens.

    The cluster of an egress's lake counts, too: its token must match no address of the target.
    """
    own, of_source = found(kafka), found(source) if source else None
    tokens = token_settings.tokens_of([each for each in (own, of_source) if each])
    spark = found(look_up)
    conf = {**(spark.conf if spark else {}), **spec.spark.settings}
    wrong = token_settings.complaints(tokens, conf, home=spark.home if spark else None)
    for each in wrong:
        says, _, fix = each.rpartition("; ")
        yield failure("tokens", says, fix)
    if wrong or own is None or (token := own.delegation_token) is None:
        return
    itself = token_settings.tokens_for_master([token], look_up().master)
    by = "Spark itself" if itself else "the driver"
    yield ok("tokens", f"{by} obtains the token {token.cluster!r} of {', '.join(token.addresses)}")
