"""What `tidegate settings` and `validate` print."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from tidegate.core.json_codec import Document
from tidegate.core.wording import counted
from tidegate.settings.setting import Answer, Place, Setting, describe_values
from tidegate.terminal.console import bold, say


@dataclass(frozen=True)
class SettingAnswer(Document):
    """What becomes of a setting in one place of a pipeline file, and its default.

    `becomes` is the setting that takes its place. `outside_default` is that of Kafka or Spark.
    """

    name: str
    place: str
    answer: str
    values: str | None
    becomes: str | None
    default: str | None
    outside_default: str | None
    why: str | None
    use: str | None
    since: str | None

    @property
    def beside(self) -> str:
        """The default or the new name, as the table has it beside the name."""
        if self.becomes:
            return f"→ {self.becomes}"
        return self.default or (f"({self.outside_default})" if self.outside_default else "")


@dataclass(frozen=True, kw_only=True)
class SettingAnswers(Document):
    """Settings of the table (contract: `settings --json`)."""

    format: int = 1
    settings: tuple[SettingAnswer, ...]


@dataclass(frozen=True)
class ValidatedFile(Document):
    """A pipeline file, what is wrong in it, and what is accepted with a consequence."""

    file: str
    complaints: tuple[str, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Validated(Document):
    """Pipeline files that were checked (contract: `validate --json`)."""

    format: int = 1
    files: tuple[ValidatedFile, ...]


def settings_document(settings: Iterable[Setting]) -> SettingAnswers:
    """Return the answers to settings."""
    return SettingAnswers(
        settings=tuple(
            SettingAnswer(
                name=each.name,
                place=str(each.place),
                answer=str(each.answer),
                values=describe_values(each.check) or None,
                becomes=each.becomes,
                default=each.default,
                outside_default=each.outside,
                why=each.why or None,
                use=each.use or None,
                since=each.since,
            )
            for each in settings
        )
    )


def print_table(found: SettingAnswers) -> None:
    """Print the names by place and answer, with the default or the new name beside them."""
    for place in Place:
        for answer in Answer:
            settings = [
                each for each in found.settings if (each.place, each.answer) == (place, answer)
            ]
            if settings:
                say(bold(f"{place}: {answer}"))
            width = max((len(each.name) for each in settings if each.beside), default=0)
            for each in settings:
                say(f"  {each.name:{width}}  {each.beside}".rstrip())
    say("The default is Tidegate's, in brackets that of Kafka or Spark.")
    say("Values, reasons and what to use instead: tidegate settings NAME")


def print_named(found: SettingAnswers) -> None:
    """Print everything about the settings of one name. Places with the same answer together."""

    def answer(each: SettingAnswer) -> str:
        return str(replace(each, name="", place=""))

    for _, group in groupby(sorted(found.settings, key=answer), key=answer):
        same = list(group)
        names = dict.fromkeys(each.name for each in same)
        places = dict.fromkeys(each.place for each in same)
        first = same[0]
        becomes = f" to {first.becomes}" if first.becomes else ""
        say(bold(", ".join(names)))
        say(f"  in {', '.join(places)}: {first.answer}{becomes}")
        for label, value in (
            ("values", first.values),
            ("default", first.default),
            ("default of Kafka or Spark", first.outside_default),
            ("why", first.why),
            ("use", first.use),
            ("since", first.since),
        ):
            if value is not None:
                say(f"  {label}: {value}")


def print_validated(found: Validated) -> None:
    """Print each file, its complaints and its notices."""
    for each in found.files:
        state = counted(len(each.complaints), "complaint") if each.complaints else "valid"
        say(bold(each.file, f": {state}"))
        for complaint in each.complaints:
            say(f"  - {complaint}")
        for notice in each.notices:
            say(f"  notice: {notice}")
