"""A pipeline file in the making: keys with the settings that they come from, and other answers."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.core.nearest import did_you_mean
from tidegate.core.printable import CONTROL
from tidegate.pipelines.translation.given import Given
from tidegate.settings import secrets
from tidegate.settings.setting import Answer, Place
from tidegate.settings.table import TABLE, find, judge

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_CHANGES_RECORDS = "interceptor.classes"
_NO_EFFECT = "it has no effect"
_PREFIXED = re.compile(r"[A-Za-z][\w-]{0,40}(\.[\w-]{1,40}){1,8}")
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_PATHS = {
    Place.SOURCE: ("options",),
    Place.SINK: ("target", "options"),
    Place.SPARK: ("spark", "conf"),
    Place.SENDING: ("spark", "conf"),
}
_NAMES = {
    name for each in TABLE for name in (each.name.lower(), each.name.lower().removeprefix("kafka."))
}


@dataclass
class Draft:
    """The keys of the file, and what is to be said about the settings that were given.

    `comments` are by the path of a key. `missing` is what no pipeline can be without.
    """

    kind: Literal["ingest", "egress"]
    own: Collection[str]
    """Names of settings that are known beside those of the table."""
    where: str = "line"
    called: str = ""
    """The pipeline's name, if the user has chosen one."""
    form: dict[str, Any] = field(default_factory=dict)
    comments: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    dropped: dict[str, dict[str, None]] = field(default_factory=dict)
    """Names of settings by the reason."""
    refused: dict[str, dict[str, None]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """What to do beside the file: lines of a comment."""
    connection: dict[str, str] = field(default_factory=dict)
    """Settings of the Kafka connection without `kafka.`; not for printing."""
    connected: list[str] = field(default_factory=list)
    """Their names as they were given."""

    def set(self, path: tuple[str, ...], value: Any, given: Given | None, why: str = "") -> None:
        """Set a key, from a setting."""
        form = self.form
        for part in path[:-1]:
            form = form.setdefault(part, {})
        form[path[-1]] = value
        text = ": ".join(filter(None, [self.label(given) if given else "", why]))
        self.comments.setdefault(path, []).append(text)

    def name(self, *candidates: str) -> None:
        """Set the pipeline's name: the user's, or the first that can be made of a candidate."""
        names = (re.sub("_{2,}", "_", re.sub("[^a-z0-9-]+", "_", c.lower())) for c in candidates)
        stripped = (name.lstrip("0123456789_-")[:64].rstrip("_-") for name in names)
        self.form["name"] = self.called or next(filter(None, stripped), "translated")

    def drop(self, given: Given, why: str) -> None:
        """Note that a setting is not needed any more."""
        self._note(self.dropped, given, why)

    def refuse(self, given: Given, why: str) -> None:
        """Note that a setting is not taken over, though it had a meaning."""
        self._note(self.refused, given, why)

    def need(self, given: Given, why: str) -> None:
        """Note that a setting cannot be read without which the pipeline would be another one."""
        self.missing.append(f"{self.label(given)}: {why}")

    def connect(self, given: Given, name: str) -> None:
        """Note a setting that belongs in the Kafka connection; `name` is without `kafka.`."""
        self.connection[name] = given.value
        self.connected.append(self.label(given))

    def text(self, given: Given) -> str | None:
        """Return the value of a setting that goes into the file; None, and a refusal, if it cannot.

        An empty value is none.
        """
        if "${" in given.value:
            self.refuse(given, "its value is a variable of another system: write it into the file")
        elif CONTROL.search(given.value):
            self.refuse(given, "its value holds a control character, or is not Unicode")
        elif secrets.is_secret(given.name, given.value):
            self.refuse(given, "it holds a secret, which has no place in a pipeline's file")
        elif not given.value.strip():
            self.drop(given, "it is empty")
        else:
            return given.value.strip()
        return None

    def judged(self, place: Place, given: Given, name: str | None = None) -> None:
        """Pass a setting on, by the answer that the table of settings has for `name`.

        An unknown one is refused.
        """
        name = name or given.name
        setting = find(place, name)
        if setting and setting.answer is Answer.WARNED and setting.why.startswith(_NO_EFFECT):
            self.drop(given, setting.why + (f"; use {setting.use}" if setting.use else ""))
            return
        if setting and setting.answer is Answer.REFUSED and given.value != "":
            value: str | None = "any"  # the answer is about the name
        else:
            value = self.text(given)
        if value is None:
            return
        verdict = judge(place, {name: value})
        if verdict.complaints:
            note = self.need if name.endswith(_CHANGES_RECORDS) else self.refuse
            note(given, _bare(verdict.complaints[0], name))
            return
        ((new, value),) = verdict.settings.items()
        path = ("isolation",) if new == "isolation" else (*_PATHS[place], new)
        if path in self.comments:
            self.refuse(given, f"given before, as {new}")
            return
        notice = _bare(verdict.notices[0], name) if verdict.notices else "kept"
        self.set(path, scalar(value), given, notice)

    def unknown(self, given: Given) -> None:
        """Note a setting that nothing is known about."""
        near = did_you_mean(given.name, sorted({*self.own} - {given.name}))
        self.refuse(given, f"not known{near}")

    def label(self, given: Given) -> str:
        """Return the name of a setting; its place, if the name may be the part of a secret."""
        name = given.name
        is_known = name.lower() in _NAMES or not {name, name.lower()}.isdisjoint(self.own)
        if is_known or _PREFIXED.fullmatch(name):
            return name
        return f"{self.where} {given.line}"

    def _note(self, notes: dict[str, dict[str, None]], given: Given, why: str) -> None:
        notes.setdefault(why, {})[self.label(given)] = None


def per_partition(text: str) -> dict[str, dict[int, int]] | None:
    """Return numbers by topic and partition, from Spark's JSON; None if it is none."""
    try:
        form = json.loads(text)
        return {
            _topic(topic): {int(p): _whole(number) for p, number in numbers.items()}
            for topic, numbers in form.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def cron(milliseconds: int) -> str | None:
    """Return the cron expression of an interval; None if no expression has this interval."""
    minutes, rest = divmod(milliseconds, 60_000)
    if rest or minutes < 1:
        return None
    if minutes < 60 and 60 % minutes == 0:
        return "* * * * *" if minutes == 1 else f"*/{minutes} * * * *"
    hours, rest = divmod(minutes, 60)
    if rest or hours > 24 or 24 % hours:
        return None
    return {1: "0 * * * *", 24: "0 0 * * *"}.get(hours, f"0 */{hours} * * *")


def _topic(name: str) -> str:
    if not TOPIC.fullmatch(name):
        raise ValueError
    return name


def _whole(number: Any) -> int:
    if type(number) is not int:
        raise TypeError
    return number


def _bare(text: str, name: str) -> str:
    """Return the judge's text without the name in front of it."""
    return text.removeprefix(f"{name}: ").removeprefix("refused: ")


def scalar(value: str) -> str | int | bool:
    """Return a value as YAML has it without quotes, if the text is the same."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if _NUMBER.fullmatch(value) else value
