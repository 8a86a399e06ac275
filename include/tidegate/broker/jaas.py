"""An entry of JAAS, by which Java's clients log in."""

from collections.abc import Mapping


def jaas(module: str, options: Mapping[str, str]) -> str:
    """Return the entry of a login module: `MODULE required NAME="VALUE" …;`."""
    given = "".join(f" {name}={_quoted(value)}" for name, value in options.items())
    return f"{module} required{given};"


def _quoted(value: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(character, escaped)
    return f'"{value}"'
