"""The ports of the heart: Protocols that a stranger could implement."""

import ast
import re
from collections import Counter

from tools import ports_reference

MOST = {
    "SourceFiles": 4, "Stores": 2, "Store": 19, "Application": 2, "Engine": 12, "Kafka": 22,
    "Watch": 2, "JavaCluster": 6,
    "RecordFormat": 1, "FileFormat": 9,
    "SparkSpec": 2, "StartSpec": 5, "PipelineSpec": 6, "IngestSpec": 20, "SourceSpec": 6,
    "TargetSpec": 9, "EgressSpec": 12, "Pipelines": 2,
}  # fmt: skip
"""The members of each Protocol. A larger number needs a reason in an ADR."""
ASKED_BY_KITS = {"Store.is_shared_by_nodes", "Watch.changed", "Watch.outage"} | {
    f"JavaCluster.{name}" for name in ("java_options", "delegation_token", "for_java", "watch")
}
"""Members that only an engine reads, which is another kit."""
VAGUE = {"Any", "object", "dict[str, Any]", "Mapping[str, Any]"}


def test_each_protocol_has_its_ceiling() -> None:
    found = {node.name: len([*ports_reference.members(node)]) for _, node in _protocols()}
    assert found == MOST


def test_each_function_says_what_it_does() -> None:
    silent = [
        f"{node.name}.{member.name}"
        for _, node in _protocols()
        for member in ports_reference.members(node)
        if isinstance(member, ast.FunctionDef) and not ast.get_docstring(member)
    ]
    assert silent == []


def test_nothing_is_asked_for_nobody() -> None:
    """A member that no module of the heart reads would be written for each variant in vain."""
    heart = "".join(
        path.read_text()
        for room in ("core", "ingest", "egress", "runs", "lake", "spark")
        for path in (ports_reference.PACKAGE / room).rglob("*.py")
    )
    unread = [
        f"{node.name}.{name}"
        for _, node in _protocols()
        for member in ports_reference.members(node)
        if f"{node.name}.{_name(member)}" not in ASKED_BY_KITS
        and not re.search(rf"\.{(name := _name(member))}\b", heart)
    ]
    assert unread == []


def test_no_type_says_nothing() -> None:
    """What crosses has a type: a value of the heart, or one of Python's."""
    vague = Counter(
        f"{node.name}: {each}"
        for _, node in _protocols()
        for member in ports_reference.members(node)
        for each in ports_reference.annotations(member)
        if each in VAGUE or "Any" in each.replace("[", " ").replace("]", " ").split()
    )
    assert vague == {}


def _protocols() -> list[tuple[str, ast.ClassDef]]:
    return list(ports_reference.protocols())


def _name(member: ast.FunctionDef | ast.AnnAssign) -> str:
    return member.name if isinstance(member, ast.FunctionDef) else ast.unparse(member.target)
