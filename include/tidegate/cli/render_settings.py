"""What `tidegate settings` and `validate` print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tidegate.cli.console import Document, bold, say
from tidegate.core.wording import counted
from tidegate.settings.setting import Answer, Place, Setting, describe_values


def settings_document(settings: Iterable[Setting]) -> dict[str, Any]:
    """Return settings in their JSON form."""
    forms = [
        {
            "name": each.name,
            "place": each.place,
            "answer": each.answer,
            "values": describe_values(each.check) or None,
            "becomes": each.becomes,
            "default": each.default,
            "outside_default": each.outside,
            "why": each.why or None,
            "use": each.use or None,
            "since": each.since,
        }
        for each in settings
    ]
    return {"format": 1, "settings": forms}


def print_table(found: Document) -> None:
    """Print the names by place and answer, with the default or the new name beside them."""
    for place in Place:
        for answer in Answer:
            settings = [
                each
                for each in found["settings"]
                if (each["place"], each["answer"]) == (place, answer)
            ]
            if settings:
                say(bold(f"{place}: {answer}"))
            width = max((len(each["name"]) for each in settings if _beside(each)), default=0)
            for each in settings:
                say(f"  {each['name']:{width}}  {_beside(each)}".rstrip())
    say("The default is Tidegate's, in brackets that of Kafka or Spark.")
    say("Values, reasons and what to use instead: tidegate settings NAME")


def print_named(found: Document) -> None:
    """Print everything about the settings of one name. Places with the same answer together."""

    def answer(each: Document) -> Sequence[Any]:
        return [each[key] for key in each if key not in ("name", "place")]

    settings = sorted(found["settings"], key=lambda each: str(answer(each)))
    for _, group in groupby(settings, key=answer):
        same = list(group)
        names = dict.fromkeys(each["name"] for each in same)
        places = dict.fromkeys(each["place"] for each in same)
        first = same[0]
        becomes = f" to {first['becomes']}" if first["becomes"] else ""
        say(bold(", ".join(names)))
        say(f"  in {', '.join(places)}: {first['answer']}{becomes}")
        for label, value in (
            ("values", first["values"]),
            ("default", first["default"]),
            ("default of Kafka or Spark", first["outside_default"]),
            ("why", first["why"]),
            ("use", first["use"]),
            ("since", first["since"]),
        ):
            if value is not None:
                say(f"  {label}: {value}")


def print_validated(found: Document) -> None:
    """Print each file, its complaints and its notices."""
    for each in found["files"]:
        complaints = each["complaints"]
        state = counted(len(complaints), "complaint") if complaints else "valid"
        say(bold(each["file"], f": {state}"))
        for complaint in complaints:
            say(f"  - {complaint}")
        for notice in each["notices"]:
            say(f"  notice: {notice}")


def _beside(setting: Document) -> str:
    if setting["becomes"]:
        return f"→ {setting['becomes']}"
    outside = setting["outside_default"]
    return setting["default"] or (f"({outside})" if outside else "")
