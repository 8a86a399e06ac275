"""The table of all settings, and the judge of those that a user gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate.core.nearest import did_you_mean
from tidegate.errors import ConfigurationError
from tidegate.settings.old_names import OLD
from tidegate.settings.setting import UNSET, Answer, Place, Setting
from tidegate.settings.sink import SINK
from tidegate.settings.source import SOURCE
from tidegate.settings.spark_conf import SENDING, SPARK

TABLE: tuple[Setting, ...] = (*SOURCE, *SINK, *SPARK, *SENDING, *OLD)

_BY_NAME: Mapping[tuple[Place, str], Setting] = {
    (each.place, each.name.lower()): each for each in TABLE
}

_GROUPS = tuple(each for each in TABLE if each.name.endswith(".*"))
"""Each is the answer to all names that begin as it does and have no other."""

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


def find(place: Place, name: str) -> Setting | None:
    """Return the setting of this name at a place; options have names in any letter case."""
    found = _BY_NAME.get((place, name.lower()))
    if place is Place.SENDING and not found:
        found = _BY_NAME.get((Place.SPARK, name.lower()))
    if found:
        return None if place in _OF_SPARK and found.name != name else found
    places = _OF_SPARK if place is Place.SENDING else (place,)
    groups = (each for each in _groups(name) if each.place in places)
    return next((replace(each, name=name) for each in groups), None)


def named(name: str) -> tuple[Setting, ...]:
    """Return the settings of this name at all places, in any letter case, with or without `kafka.`.

    ConfigurationError with the nearest name if there is none.
    """
    found = tuple(each for each in TABLE if _short(each.name) == _short(name))
    if found := found or _groups(name):
        return found
    known = [name for each in TABLE for name in (each.name, each.name.removeprefix("kafka."))]
    of_spark = "; other settings that begin with spark. pass to Spark as they are"
    raise ConfigurationError(
        f"there is no setting {name!r} in the table{did_you_mean(name, known)}"
        + (of_spark if name.lower().startswith("spark.") else "")
    )


def _groups(name: str) -> tuple[Setting, ...]:
    return tuple(each for each in _GROUPS if name.startswith(each.name.removesuffix("*")))


def _short(name: str) -> str:
    return name.lower().removeprefix("kafka.")


def judge(place: Place, given: Mapping[str, str]) -> Verdict:
    """Return the answers to the settings that a user gives at a place, all at once.

    Values are never quoted: they may be secret.
    """
    settings: dict[str, str] = {}
    notices: list[str] = []
    complaints: list[str] = []
    for name, value in given.items():
        setting = find(place, name)
        if setting is None:
            if complaint := _unknown(place, name):
                complaints.append(f"{name}: {complaint}")
            elif name in settings:
                complaints.append(f"{name}: given twice")
            else:
                settings[name] = value
            continue
        new = setting.becomes or setting.name
        target = find(place, new) or setting
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
    """Return the complaint about a name that is not in the table; None if it may pass."""
    if place in _OF_SPARK:
        return _unknown_to_spark(name)
    known = [each.name for each in TABLE if each.place is place]
    client = "consumer" if place is Place.SOURCE else "producer"
    if (prefixed := find(place, f"kafka.{name}")) and prefixed.answer is Answer.REFUSED:
        return _refusal(prefixed)
    if prefixed:
        return f"did you mean {prefixed.name!r}?"
    near_text = did_you_mean(name, known)
    return f"no option of Spark's, and no setting of Kafka's {client}{near_text}"


def _unknown_to_spark(name: str) -> str | None:
    if name != name.strip():
        return "blanks around the name: Spark would not know it"
    for place in _OF_SPARK:
        meant = _BY_NAME.get((place, name.lower()))
        if meant and meant.name != name:
            return f"Spark's settings have their letter case: {meant.name}"
    return None if name.startswith("spark.") else "Spark's settings begin with `spark.`"
