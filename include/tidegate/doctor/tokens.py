"""The doctor's check of delegation tokens; it asks no broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.doctor.check import Line, failure, ok
from tidegate.doctor.connections import KafkaLookup, found
from tidegate.launch import delegation_tokens
from tidegate.pipelines.spec import Spec
from tidegate.pipelines.value_types import as_text


def check_tokens(
    spec: Spec,
    kafka: KafkaLookup,
    master: Callable[[], str],
    source: KafkaLookup | None,
) -> Iterator[Line]:
    """Check that Spark can use the tokens of a pipeline's connections; nothing without tokens.

    The cluster of an egress's lake counts, too: its token must match no address of the target.
    """
    own, of_source = found(kafka), found(source) if source else None
    tokens = delegation_tokens.tokens_of([each for each in (own, of_source) if each])
    conf = {name: as_text(value) for name, value in spec.spark.conf.items()}
    wrong = delegation_tokens.complaints(tokens, conf)
    for each in wrong:
        says, _, fix = each.rpartition("; ")
        yield failure("tokens", says, fix)
    if wrong or own is None or (token := own.delegation_token) is None:
        return
    itself = delegation_tokens.for_master([token], master())
    by = "Spark itself, by Kerberos," if itself else "the driver"
    yield ok("tokens", f"{by} obtains the token {token.cluster!r} of {', '.join(token.addresses)}")
