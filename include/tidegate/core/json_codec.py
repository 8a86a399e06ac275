"""JSON forms of dataclasses, derived from the type hints of their fields.

A dataclass is a JSON object, a tuple or named tuple an array, a set a sorted array. The keys of a
mapping are strings, those that are numbers too. A hint says what differs:

- `Annotated[str, Name("plan")]`: the field has this name in JSON.
- `Annotated[str | None, OMITTED] = None`: the field is written only if it is not the default.
- `Annotated[OffsetWindow, Form(write, read)]`: these two functions convert the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args, get_origin, get_type_hints

from tidegate.core import canonical


class Form(NamedTuple):
    """How a value becomes JSON, and how it is read back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Name(NamedTuple):
    """The name of a field in JSON."""

    name: str


class Presence(Enum):
    """When a field may be missing: while it is the default."""

    OMITTED = 1


def as_object(kind: Any) -> Form:
    """Return the form of a named tuple as a JSON object."""
    return Form(lambda value: value._asdict(), lambda form: kind(**form))


OMITTED = Presence.OMITTED
UNCHANGED = Form(lambda value: value, lambda value: value)
MALFORMED = (AttributeError, KeyError, TypeError, ValueError)
"""What reading JSON of the wrong shape raises."""


class Document:
    """Base of a dataclass that has a JSON form of its own."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return _write(self)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Self:
        """Return the value of a JSON object. Unknown keys are ignored.

        Raises one of MALFORMED for a document that does not fit. Its message names the field.
        """
        read: Self = _read(cls, form)
        return read


class StoredDocument(Document):
    """Base of a document that is known by the digest of its bytes."""

    @cached_property
    def encoded(self) -> bytes:
        """The canonical bytes."""
        return canonical.encode(self.to_json())

    @cached_property
    def sha256(self) -> str:
        """The digest of the canonical bytes, 64 hex digits."""
        return canonical.digest(self.encoded)


def _read(cls: Any, form: Mapping[str, Any]) -> Any:
    return cls(**{field.attribute: field.read(form) for field in _fields(cls)})


def _write(value: Any) -> dict[str, Any]:
    cls: Any = type(value)
    return {
        field.name: field.form.write(inner)
        for field in _fields(cls)
        for inner in (getattr(value, field.attribute),)
        if field.presence is not OMITTED or inner != field.default
    }


class _Field(NamedTuple):
    attribute: str
    name: str
    form: Form
    default: Any
    presence: Presence | None

    def read(self, form: Mapping[str, Any]) -> Any:
        if self.name not in form:
            if self.presence:
                return self.default
            raise ValueError(f"{self.name}: missing")
        try:
            return self.form.read(form[self.name])
        except MALFORMED as error:
            raise ValueError(f"{self.name}: {error}") from None


@cache
def _fields(cls: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    derived = []
    for each in fields(cls):
        notes = getattr(hints[each.name], "__metadata__", ())
        name = next((note.name for note in notes if isinstance(note, Name)), each.name)
        presence = next((note for note in notes if isinstance(note, Presence)), None)
        made = each.default_factory
        default = each.default if made is MISSING else made()
        derived.append(_Field(each.name, name, form_of(hints[each.name]), default, presence))
    return tuple(derived)


@cache
def form_of(hint: Any) -> Form:
    """Return the form of values with this type hint; TypeError for a type that has none."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        given = [note for note in inner[1:] if isinstance(note, Form)]
        return given[0] if given else form_of(inner[0])
    if kind is Any:
        return UNCHANGED
    if kind is Literal:
        return _checked(lambda value: value in inner, f"one of {inner}")
    if kind is UnionType and inner[1:] == (NoneType,):
        return _optional(form_of(inner[0]))
    if kind in (str, int, bool):
        return _checked(lambda value: type(value) is kind, kind.__name__)
    if issubclass(kind, Mapping):
        return _mapping(*inner)
    if issubclass(kind, tuple) and Ellipsis not in inner:
        return _record(kind, inner or tuple(get_type_hints(kind).values()))
    if issubclass(kind, (tuple, list, set)):
        return _array(kind, inner[0])
    if issubclass(kind, Document):
        return Form(lambda value: value.to_json(), kind.from_json)
    if is_dataclass(kind):
        return _object(kind)
    raise TypeError(f"{hint} has no JSON form")


def _checked(fits: Callable[[Any], bool], expected: Any) -> Form:
    def read(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"{value!r} is not {expected}")
        return value

    return Form(UNCHANGED.write, read)


def _optional(form: Form) -> Form:
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda value: None if value is None else form.read(value),
    )


def _mapping(key: type, hint: Any) -> Form:
    form = form_of(hint)
    return Form(
        lambda value: {str(k): form.write(each) for k, each in value.items()},
        lambda value: {key(k): form.read(each) for k, each in value.items()},
    )


def _record(kind: Any, hints: tuple[Any, ...]) -> Form:
    """Return the form of a tuple whose items have types of their own."""
    forms = [form_of(each) for each in hints]
    make = getattr(kind, "_make", tuple)
    return Form(
        lambda value: [form.write(each) for form, each in zip(forms, value, strict=True)],
        lambda value: make(form.read(each) for form, each in zip(forms, value, strict=True)),
    )


def _array(kind: type, hint: Any) -> Form:
    form = form_of(hint)
    ordered = sorted if issubclass(kind, set) else list
    array = _checked(lambda value: type(value) is list, "an array")
    return Form(
        lambda value: [form.write(each) for each in ordered(value)],
        lambda value: kind(map(form.read, array.read(value))),
    )


def _object(kind: Any) -> Form:
    """Return the form of a dataclass within a document: its unknown keys are refused."""
    names = {field.name for field in _fields(kind)}

    def read(value: Mapping[str, Any]) -> Any:
        if unknown := value.keys() - names:
            raise ValueError(f"unknown in {kind.__name__}: {sorted(unknown)}")
        return _read(kind, value)

    return Form(_write, read)
