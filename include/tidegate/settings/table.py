"""The table of all settings, and the judge of those that a user gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.nearest import did_you_mean
from tidegate.errors import ConfigurationError
from tidegate.settings import secrets
from tidegate.settings.old_names import OLD
from tidegate.settings.setting import UNSET, Answer, Place, Setting
from tidegate.settings.sink_settings import SINK
from tidegate.settings.source import SOURCE
from tidegate.settings.spark_conf import OF_CONNECTOR, SENDING, SPARK, USUAL

TABLE: tuple[Setting, ...] = (*SOURCE, *SINK, *SPARK, *SENDING, *OLD)

_BY_NAME: Mapping[tuple[Place, str], Setting] = {
    (each.place, each.name.lower()): each for each in TABLE
}

_GROUPS = tuple(each for each in TABLE if each.name.endswith(".*"))
"""Each is the answer to all names that begin as it does and have no other."""

# `${env:X}`, `${env.X}`, `${x.y}`. `${X}` is a variable of the file that is not set.
_EXPANDED_LATER = re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*(?::-|\}))")
_OF_SPARK = (Place.SPARK, Place.SENDING)


@dataclass(frozen=True)
class Verdict:
    """What becomes of given settings.

    `settings` are to be passed on, by the names that Kafka and Spark have. `notices` are what a
    user should know of accepted ones, `complaints` why others are refused.
    """

    settings: Mapping[str, str]
    notices: tuple[str, ...]
    complaints: tuple[str, ...]


def find_setting(place: Place, name: str) -> Setting | None:
    """Return the setting of this name at a place. Options have names in any letter case."""
    found = _BY_NAME.get((place, name.lower()))
    if place is Place.SENDING and not found:
        found = _BY_NAME.get((Place.SPARK, name.lower()))
    if found:
        return None if place in _OF_SPARK and found.name != name else found
    places = _OF_SPARK if place is Place.SENDING else (place,)
    groups = (each for each in _groups(name) if each.place in places)
    return next((replace(each, name=name) for each in groups), None)


def find_settings(name: str, more: Iterable[Setting] = ()) -> tuple[Setting, ...]:
    """Return the settings of this name at all places, in any letter case, with or without `kafka.`.

    `more` are settings beside those of the table. ConfigurationError with the nearest name that is
    not refused if there is none.
    """
    known = (*TABLE, *more)
    found = [each for each in known if _short(each.name) == _short(name)]
    found += [each for each in _groups(name) if each.place not in {one.place for one in found}]
    if name.startswith("spark."):
        return _in_spark(name, found)
    if found:
        return tuple(found)
    allowed = [each.name for each in known if each.answer is not Answer.REFUSED]
    near = did_you_mean(name, [near for each in allowed for near in (each, _bare(each))])
    raise ConfigurationError(f"there is no setting {name!r} in the table{near}")


def _in_spark(name: str, found: Sequence[Setting]) -> tuple[Setting, ...]:
    """Return the answers to a setting of Spark. `found` are those of the table."""
    if secrets.named_secret(name):
        if not secrets.may_refer(name):
            return (_secret(name),)
        why = f"only with a value that refers to a secret: {secrets.WHY}"
        return (Setting(name=name, place=Place.SPARK, why=why, use=secrets.USE),)
    if any(each.place is Place.SPARK for each in found):
        return tuple(found)
    as_it_is = Setting(name=name, place=Place.SPARK, why="it passes to Spark as it is")
    return (as_it_is, *found)


def _secret(name: str) -> Setting:
    return Setting(
        name=name, place=Place.SPARK, answer=Answer.REFUSED, why=secrets.WHY, use=secrets.USE
    )


def _groups(name: str) -> tuple[Setting, ...]:
    return tuple(each for each in _GROUPS if name.startswith(each.name.removesuffix("*")))


def _bare(name: str) -> str:
    return name.removeprefix("kafka.")


def _short(name: str) -> str:
    return _bare(name.lower())


def judge_settings(place: Place, given: Mapping[str, str]) -> Verdict:
    """Return the answers to the settings that a user gives at a place, all at once.

    Values are never quoted: they may be secret.
    """
    settings: dict[str, str] = {}
    notices: list[str] = []
    complaints: list[str] = []
    for name, value in given.items():
        setting = find_setting(place, name)
        if place in _OF_SPARK and _EXPANDED_LATER.search(value):
            complaints.append(
                f"{name}: Spark or Hadoop would expand its ${{…}}, say from the environment: write "
                "the value"
            )
            continue
        if place in _OF_SPARK and secrets.is_secret(name, value):
            setting = _secret(name)
        if setting is None:
            if complaint := _unknown(place, name):
                complaints.append(f"{name}: {complaint}")
            elif name in settings:
                complaints.append(f"{name}: given twice")
            else:
                settings[name] = value
                if place in _OF_SPARK and (near := _nearly(name)):
                    notices.append(f"{name}: Spark ignores names that it does not know{near}")
            continue
        new = setting.becomes or setting.name
        target = find_setting(place, new) or setting
        value = target.values.get(value, value)
        check = target.check or setting.check
        if setting.answer is Answer.REFUSED:
            complaints.append(f"{name}: {_refusal(setting)}")
        elif new in settings:
            complaints.append(f"{name}: given twice" + (f", as {new}" if new != name else ""))
        elif check and not UNSET.search(value) and (wrong := check(value)):
            complaints.append(f"{name}: {wrong}")
        else:
            settings[new] = value
            if setting.answer is Answer.TRANSLATED:
                notices.append(f"{name}: read as {new}: {setting.why}")
            elif setting.answer is Answer.WARNED:
                notices.append(f"{name}: {_advice(setting)}")
            elif value != given[name]:
                notices.append(f"{name}: its value is read as {value}")
            elif target.caution and (caution := target.caution(value)):
                notices.append(f"{name}: {caution}")
    return Verdict(settings, tuple(notices), tuple(complaints))


def _refusal(setting: Setting) -> str:
    return f"refused: {_advice(setting)}"


def _advice(setting: Setting) -> str:
    return setting.why + (f"; use {setting.use}" if setting.use else "")


def _unknown(place: Place, name: str) -> str | None:
    """Return the complaint about a name that is not in the table. None if it may pass."""
    if place in _OF_SPARK:
        return _unknown_to_spark(name)
    known = [
        each.name for each in TABLE if each.place is place and each.answer is not Answer.REFUSED
    ]
    client = "consumer" if place is Place.SOURCE else "producer"
    if (prefixed := find_setting(place, f"kafka.{name}")) and prefixed.answer is Answer.REFUSED:
        return _refusal(prefixed)
    if prefixed:
        return f"did you mean {prefixed.name!r}?"
    near_text = did_you_mean(name, known)
    return f"no option of Spark's, and no setting of Kafka's {client}{near_text}"


def _nearly(name: str) -> str:
    """Return the question whether a setting of Spark is meant that has nearly this name."""
    known = [*USUAL]
    known += [
        each.name
        for each in TABLE
        if each.place in _OF_SPARK and each.answer is not Answer.REFUSED and not each.becomes
    ]
    return "" if name in USUAL else did_you_mean(name, known, closeness=0.93)


def _unknown_to_spark(name: str) -> str | None:
    if name != name.strip():
        return "blanks around the name: Spark would not know it"
    for place in _OF_SPARK:
        meant = _BY_NAME.get((place, name.lower()))
        if meant and meant.name != name:
            return f"Spark's settings have their letter case: {meant.name}"
    if name.startswith(OF_CONNECTOR):
        known = [
            each.name
            for each in TABLE
            if each.name.startswith(OF_CONNECTOR) and each.answer is not Answer.REFUSED
        ]
        return f"no setting of Spark's Kafka connector{did_you_mean(name, known)}"
    return None if name.startswith("spark.") else "Spark's settings begin with `spark.`"
