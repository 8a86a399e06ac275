"""Pipeline files as YAML, without its surprising and harmful features.

Values that YAML 1.1 reads in an unexpected way (`010` as 8, `1:30` as 90, impossible dates) stay
text, which the spec then refuses. Aliases, which can make a small file expand without limit, are
refused; keys given twice are complaints.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_BYTES = 128 * 1024
_DEEPEST = 20
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9_]{0,30})\Z")
_LEFT_AS_TEXT = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}


class BadFile(Exception):
    """The text is not valid YAML for a pipeline file; the message has the place, but no text."""


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.complaints: list[str] = []
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise BadFile(f"{_place(mark)}: an alias (*…) is not supported: write the value out")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadFile(f"{_place(mark)}: nested more than {_DEEPEST} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.MappingNode):
            self._find_duplicates(node)
        return node

    def _find_duplicates(self, node: yaml.MappingNode) -> None:
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            name = key.value.replace("_", "") if key.tag.endswith(":int") else key.value
            if name in first:
                self.complaints.append(f"{name}: given twice, in lines {first[name]} and {line}")
            first.setdefault(name, line)


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] not in _LEFT_AS_TEXT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-0123456789"))


def read(text: str) -> tuple[Any, list[str]]:
    """Return the document, and complaints about keys; BadFile if it cannot be parsed."""
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data(), loader.complaints
        finally:
            loader.dispose()
    except BadFile:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadFile(f"{_place(mark)}: not YAML: {_unquoted(error.problem or '')}") from None
    except yaml.YAMLError as error:
        raise BadFile(f"not YAML: {str(error).splitlines()[0]}") from None
    # Constructors of tags (`!!timestamp`, `!!int`, …) raise whatever their parsing raises.
    except Exception as error:
        raise BadFile(f"a value cannot be read ({type(error).__name__})") from None


def _place(mark: Any) -> str:
    return "somewhere" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"


def _unquoted(problem: str) -> str:
    """Return the parser's message without the words that it quotes, which may be secret."""
    hint = "; quote a value that begins with *" if "alias" in problem else ""
    return re.sub(r"'(?!<)[^']{2,}'|\"[^\"]{2,}\"", "…", problem) + hint
