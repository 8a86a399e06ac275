"""Direct streams of Spark (`KafkaUtils`): their topics, offsets and checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.pipelines.translation.given import Given
from tidegate.pipelines.translation.tokens import NAME, Tokens

CHECKPOINT = "checkpoint"
OFFSETS = "fromOffsets"
_STRATEGIES = ("Subscribe", "SubscribePattern", "Assign")
_STREAMS = ("createDirectStream", "createStream", "createRDD", *_STRATEGIES)
_CONTEXTS = ("StreamingContext", "JavaStreamingContext")
_COLLECTIONS = ("Set", "HashSet", "Seq", "List", "Array", "asList", "singleton", "singletonList")
_CONVERSIONS = ("toSet", "toList", "toSeq", "toArray", "asJava", "asJavaCollection")
_CHANGES = ("add", "addAll", "append", "clear", "extend", "insert", "pop", "remove", "update")
_MOST_ARGUMENTS = 9
_NO_OFFSETS = (2, 3, 7)
"""How many arguments a direct stream without offsets has in Scala, Python and Java."""


def is_one(program: Tokens) -> bool:
    """Return whether a program has a direct stream."""
    return bool({"KafkaUtils", *_CONTEXTS} & program.words)


def settings(program: Tokens) -> Iterator[Given]:
    """Yield the topics of a direct stream, and what decides where it begins."""
    yield from _unread(program)
    if is_one(program):
        yield from _checkpoints(program)
    strategies = [n for n in _calls(program) if program.at(n).text in _STRATEGIES]
    streams = [n for n in _calls(program) if program.at(n).text == "createDirectStream"]
    yield from (Given("subscribe", None, program.at(n).line) for n in streams[1:])
    ranges = [n for n in _calls(program) if program.at(n).text == "createRDD"]
    yield from (Given(OFFSETS, None, program.at(n).line) for n in ranges)
    for n in strategies or streams:
        positional, named = program.arguments(n + 1)
        if strategies:
            has_offsets = len(positional) > 2
        else:
            more = positional[3:] if len(positional) not in _NO_OFFSETS else []
            has_offsets = any(program.at(k).text != "None" for k in more)
        offsets = named.get(OFFSETS)
        if has_offsets or (offsets and program.at(offsets).text != "None"):
            yield Given(OFFSETS, None, program.at(n).line)
    if first := (strategies or streams)[:1]:
        yield _topics(program, first[0])


def _calls(program: Tokens) -> Iterator[int]:
    for n, token in enumerate(program.tokens):
        opens = program.after_types(n + 1)
        if token.text in _STREAMS and token.kind == "word" and program.at(opens).text == "(":
            yield n


def _topics(program: Tokens, n: int) -> Given:
    """Return the topics of a direct stream: their value is None unless they are in the text."""
    name, line = program.at(n).text, program.at(n).line
    positional, named = program.arguments(n + 1)
    if name == "Assign":
        return Given("assign", None, line)
    places = [*positional, *named.values()][:_MOST_ARGUMENTS]
    if name == "SubscribePattern":
        return Given("subscribePattern", _pattern(program, places[0]) if places else None, line)
    found = next(filter(None, (_names(program, k) for k in places)), None)
    return Given("subscribe", ",".join(found) if found else None, line)


def _pattern(program: Tokens, n: int) -> str | None:
    """Return the regular expression that an argument is: `Pattern.compile("…")`, `"…".r`."""
    n = _after_package(program, n)
    if program.at(n).text == "compile" and program.at(n + 1).text == "(":
        return program.value(n + 2) if program.at(n + 3).text == ")" else None
    is_regex = [program.at(n + k).text for k in (1, 2, 3)] in ([".", "r", ","], [".", "r", ")"])
    return program.at(n).text if is_regex and program.at(n).kind == "string" else None


def _names(program: Tokens, n: int) -> list[str] | None:
    """Return the names in a collection of literals, or in a variable that always is this one."""
    n = _after_package(program, n)
    if (end := _collection_end(program, n)) is not None:
        return _literals(program, n) if _ends(program, end + 1) else None
    name = program.at(n).text
    if program.at(n).kind != "word" or not _ends(program, n + 1):
        return None
    found: list[list[str] | None] = []
    for k, token in enumerate(program.tokens):
        if token.text != name or token.kind != "word":
            continue
        then = program.at(k + 1).text
        typed = program.after_types(_after_package(program, k + 2) + 1) if then == ":" else k + 1
        if program.at(typed).text == "=" and program.at(typed + 1).text not in ("=", ">"):
            start = _after_package(program, typed + 1)
            end = _collection_end(program, start)
            is_whole = end is not None and _ends(program, end + 1, is_statement=True)
            found.append(_literals(program, start) if is_whole else None)
        elif then in ("+", "-", "|", "[") or (then == "." and program.at(k + 2).text in _CHANGES):
            found.append(None)
    return found[0] if found and all(each == found[0] for each in found) else None


def _after_package(program: Tokens, n: int) -> int:
    """Return the place of a name behind its packages: `java.util.Arrays.asList`."""
    n += program.at(n).text == "new"
    for _ in range(8):
        is_conversion = program.at(n + 2).text in _CONVERSIONS
        is_package = program.at(n).kind == "word" and program.at(n + 1).text == "."
        n += 2 * (is_package and not is_conversion)
    return n


def _collection_end(program: Tokens, n: int) -> int | None:
    """Return where the collection at a place ends; None if there is none."""
    opens = program.after_types(n + 1) if program.at(n).text in _COLLECTIONS else n
    is_call = opens > n and program.at(opens).text == "("
    is_list = opens == n and program.at(n).text in ("[", "{")
    return program.closing.get(opens) if is_call or is_list else None


def _literals(program: Tokens, n: int) -> list[str] | None:
    """Return the names in a collection; None if it has anything else."""
    opens = program.after_types(n + 1) if program.at(n).text in _COLLECTIONS else n
    end = program.closing[opens]
    inside = [program.at(k) for k in range(opens + 1, end)]
    known = all(
        (each.text == "," if k % 2 else each.kind == "string" and NAME.fullmatch(each.text))
        for k, each in enumerate(inside)
    )
    return [each.text for each in inside[::2]] if inside and known else None


def _ends(program: Tokens, n: int, *, is_statement: bool = False) -> bool:
    """Return whether an argument, or a statement, ends in front of a place or a conversion."""
    while program.at(n).text == "." and program.at(n + 1).text in _CONVERSIONS:
        n += 2
        n += 2 * (program.at(n).text == "(" and program.at(n + 1).text == ")")
    then = program.at(n)
    if then.kind == "end" or then.text in (")", ",", ";", "}", "]"):
        return True
    is_next = then.line > program.at(n - 1).line and then.text not in ("+", "-", "|", ".")
    return is_statement and is_next


def _checkpoints(program: Tokens) -> Iterator[Given]:
    """Yield where a stream gets a checkpoint, which keeps its offsets.

    `ssc.checkpoint(directory)`, `StreamingContext.getOrCreate(directory, …)`.
    """
    for n, token in enumerate(program.tokens):
        before, context = program.at(n - 1).text, program.at(n - 2).text
        is_call = before == "." and program.at(n + 1).text == "("
        is_checkpoint = token.text == "checkpoint" and program.at(n + 2).text != ")"
        restores = token.text in ("getOrCreate", "getActiveOrCreate") and context in _CONTEXTS
        if is_call and (is_checkpoint or restores):
            yield Given(CHECKPOINT, None, token.line)


def _unread(program: Tokens) -> Iterator[Given]:
    """Yield a direct stream, unless all settings of Kafka in maps are its own, with the group.

    One of Kafka 0.8 has no group.
    """
    entries = {n: token.text for n, token in enumerate(program.tokens) if token.kind == "string"
               and "." in token.text and not token.text.startswith("spark.")
               and NAME.fullmatch(token.text) and program.entry(n)}  # fmt: skip
    own: set[int] = set()
    line = last = 0
    for n, token in enumerate(program.tokens):
        if n > last and token.text in _STREAMS and program.at(n + 1).text in ("(", "["):
            line = line or token.line
            first = program.after_types(n + 1)
            last = program.closing.get(first, 0)
            for k in range(first, last):
                own.update(*(range(start, end + 1) for start, end in program.map_parts(k)))
    is_known = own >= entries.keys() and {"group.id", "metadata.broker.list"} & {*entries.values()}
    if line and not is_known:
        yield Given("", None, line)
