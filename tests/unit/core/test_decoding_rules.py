"""Which decoding a topic has, and which may follow another."""

from dataclasses import replace

import pytest

from support import staged_attempts
from tidegate.core.decoding import (
    Decoder,
    Decoding,
    decoding_changes,
    decoding_of_topic,
    decodings_of_plan,
    group_decodings,
)
from tidegate.core.offsets import OffsetRange
from tidegate.errors import OtherFormat

JSON = Decoding(Decoder("json", "a INT, b STRING"))


def by_place(ddl: str) -> Decoding:
    return Decoding(Decoder("csv", ddl, by_place=True))


def test_the_decoding_of_a_topic() -> None:
    """Its own, else that of all others."""
    other = Decoding(Decoder("string", "text STRING"))
    assert decoding_of_topic({"t": JSON, "*": other}, "t") == JSON
    assert decoding_of_topic({"t": JSON, "*": other}, "u") == other
    assert decoding_of_topic({"t": JSON}, "u") is None


def test_its_columns() -> None:
    """Those of the value, with its prefix, then of the key, then the reason."""
    both = Decoding(Decoder("json", "a INT", "v_"), Decoder("string", "text STRING"))
    assert [str(field) for field in both.columns] == [
        "v_a INT", "text STRING", "_undecodable STRING",
    ]  # fmt: skip
    assert Decoding.from_json(both.to_json()) == both
    assert JSON.to_json() == {
        "value": {"format": "json", "schema": "a INT, b STRING", "prefix": ""}
    }


def test_a_plan_has_each_decoding_once() -> None:
    """Whatever the number of topics of a pattern."""
    found = group_decodings(
        {"b": JSON, "a": JSON, "c": Decoding(key=Decoder("string", "k STRING"))}
    )
    assert [each["topics"] for each in found] == [["a", "b"], ["c"]]
    assert found[0] == {"topics": ["a", "b"], **JSON.to_json()}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (JSON, Decoding(Decoder("json", "b STRING, c INT, a BIGINT")), None),
        (JSON, Decoding(Decoder("avro", "a INT, b STRING", options={"schema": "{}"})), None),
        (JSON, None, "its records were decoded, and no longer are"),
        (JSON, Decoding(Decoder("json", "a INT, b STRING", "v_")), "column a INT is gone"),
        (JSON, Decoding(key=Decoder("json", "a INT, b STRING")), None),
        (by_place("a INT, b STRING"), by_place("a INT, b STRING, c INT"), None),
        (by_place("a INT, b STRING"), by_place("a INT, c INT, b STRING"), "value: its fields are"),
    ],
)  # fmt: skip
def test_what_may_follow(old: Decoding, new: Decoding | None, said: str | None) -> None:
    found = decoding_changes(old, new)
    assert (found == []) if said is None else (said in "; ".join(found))


def test_a_plan_of_a_format_that_is_not_known_keeps_its_columns() -> None:
    """Only its driver needs the format: readers would else lose the columns of committed rows."""
    form = {"format": "protobuf", "schema": "a INT", "prefix": "", "options": {"file": "x"}}
    planned = staged_attempts.plan_of((OffsetRange("t", 0, 0, 5),))
    decode = [{"topics": ["t"], "value": form}]
    later = replace(planned, byte_settings={**planned.byte_settings, "decode": decode})
    found = decodings_of_plan(later)["t"]
    assert [str(field) for field in found.columns] == ["a INT", "_undecodable STRING"]
    assert found.to_json() == {"value": form}


def test_a_decoder_with_a_key_that_is_not_known_is_refused() -> None:
    """Without the key its values would be other values."""
    form = {"format": "csv", "schema": "a INT", "prefix": "", "quote": "'"}
    planned = staged_attempts.plan_of((OffsetRange("t", 0, 0, 5),))
    decode = [{"topics": ["t"], "value": form}]
    later = replace(planned, byte_settings={**planned.byte_settings, "decode": decode})
    with pytest.raises(OtherFormat, match=f"^plan {later.id}: the decoding of t has keys that"):
        decodings_of_plan(later)
