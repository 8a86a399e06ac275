"""Pipeline files as YAML, without its surprising and harmful features.

Values that YAML 1.1 reads in an unexpected way (`010` as 8, `1:30` as 90, impossible dates) stay
text, which the spec then refuses. Aliases, which can make a small file expand without limit, are
refused. Keys given twice are complaints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

MOST_BYTES = 128 * 1024
_DEEPEST = 20
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9_]{0,30})\Z")
_LEFT_AS_TEXT = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}


class BadFile(Exception):
    """The text is not valid YAML for a pipeline file. The message has the place, but no text."""


class _Loader(_SafeLoader):
    """PyYAML's loader, with libyaml eight times as fast, which counts for 1,000 files."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] not in _LEFT_AS_TEXT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-0123456789"))


def read_yaml(text: str) -> tuple[Any, list[str]]:
    """Return the document, and complaints about keys. BadFile if it cannot be parsed."""
    try:
        _refuse_aliases_and_depth(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return (loader.construct_document(node), [*_duplicates(node)]) if node else (None, [])
        finally:
            loader.dispose()
    except BadFile:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = "a tab; indent with spaces" if _is_tab(text, mark) else error.problem or ""
        began = error.context_mark
        since = ""
        if began and mark and began.line != mark.line:
            since = f"; what it ends began in line {began.line + 1}"
        raise BadFile(f"{_place(mark)}: not YAML: {_unquoted(said)}{since}") from None
    except yaml.YAMLError as error:
        raise BadFile(f"not YAML: {str(error).splitlines()[0]}") from None
    # Constructors of tags (`!!timestamp`, `!!int`, …) raise whatever their parsing raises.
    except Exception as error:
        raise BadFile(f"a value cannot be read ({type(error).__name__})") from None


def _refuse_aliases_and_depth(text: str) -> None:
    depth = 1
    for event in yaml.parse(text, _Loader):
        match event:
            case yaml.AliasEvent():
                where = _place(event.start_mark)
                raise BadFile(f"{where}: an alias (*…) is not supported: write the value out")
            case yaml.NodeEvent() if depth > _DEEPEST:
                raise BadFile(f"{_place(event.start_mark)}: nested more than {_DEEPEST} deep")
        if isinstance(event, yaml.CollectionStartEvent | yaml.CollectionEndEvent):
            depth += 1 if isinstance(event, yaml.CollectionStartEvent) else -1


def _duplicates(node: yaml.Node) -> Iterator[str]:
    """Yield a complaint for each key that is given twice, of inner mappings first."""
    inner = node.value if isinstance(node, yaml.CollectionNode) else ()
    for each in inner:
        for below in each if isinstance(each, tuple) else (each,):
            yield from _duplicates(below)
    if not isinstance(node, yaml.MappingNode):
        return
    first: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line = key.start_mark.line + 1
        name = key.value.replace("_", "") if key.tag.endswith(":int") else key.value
        if name in first:
            yield f"{name}: given twice, in lines {first[name]} and {line}"
        first.setdefault(name, line)


def _is_tab(text: str, mark: Any) -> bool:
    """Return whether a tab stands where a text cannot be parsed."""
    lines = text.split("\n")
    if mark is None or mark.line >= len(lines):
        return False
    return bool(lines[mark.line][mark.column : mark.column + 1] == "\t")


def _place(mark: Any) -> str:
    return "somewhere" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"


def _unquoted(problem: str) -> str:
    """Return the parser's message without the words that it quotes, which may be secret."""
    hint = "; quote a value that begins with *" if "alias" in problem else ""
    return re.sub(r"'(?!<)[^']{2,}'|\"[^\"]{2,}\"", "…", problem) + hint
