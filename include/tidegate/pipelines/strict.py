"""What the models of pipeline files have in common: frozen, and complete in their complaints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from tidegate.pipelines.value_types import Scalar, as_texts
from tidegate.settings.setting import Place
from tidegate.settings.table import judge_settings

Contradiction = tuple[str, str | Sequence[str]]
"""The key that complaints are about (empty: the mapping itself), and one or several of them."""


class Strict(BaseModel):
    """A mapping with known keys, whose contradictions are found key by key."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        """Return how a valid value contradicts itself, or the valid values of earlier keys."""
        del key, value, given  # of a mapping without contradictions
        return None

    @field_validator("*")
    @classmethod
    def _agrees(cls, value: Any, info: ValidationInfo) -> Any:
        if found := cls.contradiction(str(info.field_name), value, info.data):
            about, said = found
            texts = [said] if isinstance(said, str) else list(said)
            raise PydanticCustomError("contradictions", "{key}", {"key": about, "texts": texts})
        return value


class Spark(Strict):
    """The Spark connection, and Spark settings in addition to Tidegate's own."""

    place: ClassVar[Place] = Place.SPARK
    connection: str = "spark_default"
    conf: dict[str, Scalar] = Field(default_factory=dict)

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        del given
        if key != "conf":
            return None
        if complaints := judge_settings(cls.place, as_texts(value)).complaints:
            return "conf", complaints
        return None

    @property
    def settings(self) -> dict[str, str]:
        """The settings as Spark is to be given them."""
        return dict(judge_settings(self.place, as_texts(self.conf)).settings)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know of accepted settings."""
        return tuple(
            f"spark.conf: {n}" for n in judge_settings(self.place, as_texts(self.conf)).notices
        )


class SendingSpark(Spark):
    """The same of an egress, which decides more."""

    place: ClassVar[Place] = Place.SENDING
