"""A pipeline file as a frozen spec; whatever is wrong with it is said at once."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

TopicName = Annotated[str, Field(pattern=r"^(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z")]
Offset = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    # Python's regular expressions: pydantic's own know no look-ahead.
    model_config = ConfigDict(extra="forbid", frozen=True, regex_engine="python-re")


class StartAt(_Strict):
    """Begin at the first record at or after a moment, or at given offsets per partition."""

    timestamp: AwareDatetime | None = None
    offsets: dict[TopicName, dict[Offset, Offset]] | None = None

    @model_validator(mode="after")
    def _is_one_of_the_two(self) -> StartAt:
        if (self.timestamp is None) == (self.offsets is None):
            raise ValueError("give either a timestamp or offsets")
        return self


# Told apart by shape, so that a complaint is about the one that was meant.
Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("Word")] | Annotated[StartAt, Tag("At")],
    Discriminator(lambda value: "At" if isinstance(value, dict | StartAt) else "Word"),
]


class Spark(_Strict):
    """Where the job runs, and Spark settings beside Tidegate's own."""

    connection: str = "spark_default"
    conf: dict[str, str | int | float | bool] = {}


class Ingest(_Strict):
    """Topics into the lake."""

    name: Annotated[str, Field(pattern=r"^[a-z](?!.*__)[a-z0-9_-]{0,63}\Z")]
    kind: Literal["ingest"]
    kafka: str = "kafka_default"
    topics: Annotated[tuple[TopicName, ...], Field(min_length=1)]
    lake: Annotated[str, Field(min_length=1)]
    schedule: str | None = None
    start: Start = "earliest"
    max_records: Annotated[int, Field(ge=1)] = 5_000_000
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    on_expired: Literal["fail", "skip"] = "fail"
    spark: Spark = Spark()
    retries: Annotated[int, Field(ge=0, le=100)] = 3

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Ingest:
        if len(set(self.topics)) < len(self.topics):
            raise ValueError(f"topics: one is named twice in {list(self.topics)}")
        if "://" not in self.lake and not self.lake.startswith("/"):
            # Airflow and a terminal have other working directories: they would use two lakes.
            raise ValueError(f"lake: {self.lake!r} is neither an absolute path nor a URL")
        if isinstance(self.start, StartAt) and self.start.offsets:
            strangers = self.start.offsets.keys() - set(self.topics)
            if strangers:
                raise ValueError(f"start.offsets: not among the topics: {sorted(strangers)}")
        return self


_KNOWN_KEYS = {
    "": sorted(Ingest.model_fields),
    "spark": sorted(Spark.model_fields),
    "start": ["offsets", "timestamp"],
}


def parse(form: dict[str, Any]) -> Ingest:
    """Return the spec; ValueError with one complaint a line otherwise."""
    try:
        return Ingest.model_validate(form)
    except ValidationError as error:
        raise ValueError("\n".join(dict.fromkeys(map(_complaint, error.errors())))) from None


def _complaint(error: Any) -> str:
    path = [str(p) for p in error["loc"] if p not in ("Word", "At", "[key]")]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        known = _KNOWN_KEYS.get(".".join(path[:-1]), [])
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known)}"
        return f"{key}: unknown key{hint}"
    if error["type"] == "missing":
        return f"{key}: missing"
    message = error["msg"].removeprefix("Value error, ")
    return f"{key}: {error['input']!r}: {message}" if key else message
