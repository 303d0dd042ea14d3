"""Finds every setting with a known name in a file, whatever its reader takes of it.

A name may be spelled as in Kafka (`min.insync.replicas`), as a variable
(`KAFKA_MIN_INSYNC_REPLICAS`), with other separators (`min_insync_replicas`, `minInsyncReplicas`),
or as a path of a tree (`spring.kafka.producer.linger.ms`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from ackproof.own_config import environment
from ackproof.own_config.configuration import (
    Bearer,
    Client,
    FileLine,
    Given,
    Settings,
    Stated,
    Storage,
)
from ackproof.own_config.names import dotted, is_stated, last_words, prefix_of
from ackproof.own_config.parts import Part, Source, secret
from ackproof.own_config.tree import Block, NotYamlError, Text
from ackproof.own_config.uses import chart_name
from ackproof_model.kafka_settings import ACKS

#: The most words of a setting's name.
_LONGEST = 9
#: A name of fewer words may be another program's, unless the path to it names Kafka.
_EVIDENT = 3
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_OF_KAFKA = re.compile(
    r"kafka|(?<![a-z])(connect|streams|producer|consumer|broker)s?(?![a-z])", re.IGNORECASE
)
#: A name with a value in a line: `a.b=c`, `"a.b": "c"`, `--config a.b=c`.
_NAMED = re.compile(r"""(?<![\w.:-])["']?([A-Za-z][\w.-]*\w)["']?\s*[=:](?!/)\s*([^\s,]*)""")
_COMMENT = re.compile(r"\s*(#|//|!|;|--\s|\*)")
#: Values that hide, because somebody may log in with them.
_HIDDEN = "…"


def stated(source: Source, part: Part) -> tuple[Stated, ...]:
    """Return the settings with a known name: those that the reader took, and what else is there."""
    taken = [one for each in (part, *part.others) for one in _taken(each)]
    places = {(one.source, one.key) for one in taken}
    at_line: dict[FileLine, list[Stated]] = {}
    for one in taken:
        at_line.setdefault(one.source, []).append(one)
    others = [
        _as_count(one, at_line.get(one.source, ()))
        for one in chain(_named(source), _of_charts(source) if part.tool else ())
        if (one.source, one.key) not in places
        and not _part_of_longer(one, at_line.get(one.source, ()))
    ]
    named = (one for one in taken if one.bearer != "count" and is_stated(one.key))
    return tuple(dict.fromkeys(chain(named, others)))


def stated_unread(source: Source) -> tuple[Stated, ...]:
    """Return the settings with a known name of a file that no reader understands."""
    return tuple(_named(source))


def _part_of_longer(one: Stated, at_line: Iterable[Stated]) -> bool:
    """Whether the reader took the line under a longer name that ends with this one."""
    return any(other.key.endswith(f".{one.key}") for other in at_line)


def _as_count(one: Stated, at_line: Iterable[Stated]) -> Stated:
    """Return it as a value that the reader took for a count or the like, if it did."""
    counted = any(
        other.value == one.value and (other.bearer == "count" or chart_name(one.key))
        for other in at_line
    )
    return Stated(one.key, one.value, one.source, "count") if counted else one


def _taken(part: Part) -> Iterator[Stated]:
    """Yield every value with its line that a reader took."""
    for node in part.nodes:
        bearers: list[Bearer] = ["broker"] if "broker" in node.roles else ["controller"]
        for bearer in bearers:
            yield from _of(node.settings, bearer)
        if node.count:
            yield from _counted("", Given(str(node.count.value), node.count.source))
        if isinstance(node.storage, Storage):
            yield from _counted("", Given(node.storage.value, node.storage.source))
    for topic in part.topics:
        yield from _of(topic.settings, "topic")
        for given in (topic.partitions, topic.replication_factor):
            yield from _counted("", given)
    for client in part.producers:
        yield from _of_client(client, "producer")
    for client in part.consumers:
        yield from _of_client(client, "consumer")
    for given in (part.kafka, part.since, part.below, part.mode, *part.unread, *part.taken):
        yield from _counted("", given)


def _of_client(client: Client, bearer: Bearer) -> Iterator[Stated]:
    yield from _of(client.settings, bearer)
    yield from _counted("", client.version)
    yield from _counted("", client.exactly_once)


def _of(settings: Settings, bearer: Bearer) -> Iterator[Stated]:
    for key, given in settings.items():
        if isinstance(given.source, FileLine) and given.value:
            yield Stated(key, given.value, given.source, bearer)


def _counted(key: str, given: Given | None) -> Iterator[Stated]:
    if given and isinstance(given.source, FileLine):
        yield Stated(key, given.value, given.source, "count")


def _named(source: Source) -> Iterator[Stated]:
    """Yield the settings with a known name, the first of each name in a line."""
    try:
        is_tree = source.is_tree
    except NotYamlError:
        is_tree = False  # its reader knows a notation of its own
    found = _of_tree(source) if is_tree else _of_lines(source.text, 1, ())
    seen: set[tuple[str, int]] = set()
    for key, value in found:
        if (key, value.line) not in seen:
            seen.add((key, value.line))
            yield Stated(key, _HIDDEN if secret(key) else str(value), source.where(value))


def _of_charts(source: Source) -> Iterator[Stated]:
    """Yield what has a name of a known chart's own, once for each name below one parent."""
    seen: set[str] = set()
    for path, text in _leaves(source.documents) if source.is_tree else _assigned(source.text):
        whole = ".".join(path)
        name = chart_name(whole)
        place = whole[: whole.rfind(name) + len(name)]
        if name and place not in seen:
            seen.add(place)
            yield Stated(name, str(text), source.where(text))


def _assigned(text: str) -> Iterator[tuple[tuple[str, ...], Text]]:
    """Yield the names and values of lines such as those of Terraform."""
    for number, line in enumerate(text.splitlines(), start=1):
        match = None if _COMMENT.match(line) else _NAMED.search(line)
        if match:
            yield (match[1],), Text.at(match[2].strip("\"'"), number)


_Found = Iterator[tuple[str, Text]]


def _of_tree(source: Source) -> _Found:
    """Yield the names in a tree."""
    for path, text in _leaves(source.documents):
        yield from _of_text(source, text, path)


def _leaves(documents: Sequence[object]) -> Iterator[tuple[tuple[str, ...], Text]]:
    """Yield the texts of a tree; a part of it that is used twice is looked at once."""
    seen: set[int] = set()
    stack: list[tuple[object, tuple[str, ...]]] = [(one, ()) for one in reversed(documents)]
    while stack:
        node, path = stack.pop()
        if isinstance(node, Text):
            yield path, node
        elif isinstance(node, Block | list) and id(node) not in seen:
            seen.add(id(node))
            stack += reversed([*_children(node, path)])


def _children(
    node: Block | list[object], path: tuple[str, ...]
) -> Iterator[tuple[object, tuple[str, ...]]]:
    """Yield what a node has, with the path of each; `{name: A, value: b}` is `A: b`."""
    if isinstance(node, list):
        yield from ((one, path) for one in node)
        return
    names = [node.get(key) for key in ("name", "Name", "key")]
    name = next((one for one in names if isinstance(one, Text)), None)
    for key, value in node.items():
        named = key in ("value", "Value") and name is not None
        yield value, (*path, str(name) if named else key)


def _of_text(source: Source, text: Text, path: tuple[str, ...]) -> _Found:
    if path and (key := _name(path)):
        yield key, text
    if text.block:
        yield from _of_lines(str(text), text.line + 1, path)
    elif "\n" in text:  # in quotes, so that all of it stands in one line
        yield from ((key, Text.at(one, text.line)) for key, one in _of_lines(str(text), 1, path))
    elif "=" in text:
        yield from _of_lines(_unfolded(source, text), text.line, path)


def _unfolded(source: Source, text: Text) -> str:
    """Return a text in the lines of its file; YAML joins those of a text without quotes."""
    lines = source.lines[text.line - 1 :][: len(text.split())]
    joined = ""
    for number, line in enumerate(lines, start=1):
        joined = f"{joined} {' '.join(line.split())}".strip()
        if number > 1 and " ".join(text.split()) in joined:
            return "\n".join(lines[:number])
    return str(text)


def _of_lines(text: str, first: int, path: tuple[str, ...]) -> _Found:
    for number, line in enumerate(text.splitlines(), start=first):
        if _COMMENT.match(line):
            continue
        for match in _NAMED.finditer(line):
            if key := _name((*path, match[1])):
                yield key, Text.at(match[2].strip("\"'"), number)


@cache
def _name(path: tuple[str, ...]) -> str:
    """Return the known name with which a path ends, the longest; '' if there is none."""
    last = path[-1]
    if _VARIABLE.fullmatch(last):
        words = environment.key_of(last).split(".")
        own = last.startswith("KAFKA_")
        evident = bool(_OF_KAFKA.search(last))
    else:
        words = re.split(r"[._-]", ".".join(map(dotted, path)))
        own = False
        evident = any(map(_OF_KAFKA.search, path))
    if words[-1] not in last_words():
        return ""
    for length in range(min(len(words), _LONGEST), 0, -1):
        name = ".".join(words[-length:])
        whole = name == last
        if not is_stated(name):
            continue
        if length == 1:  # other programs have most of these, too
            return name if own or (name == ACKS and evident) else ""
        if whole or evident or length >= _EVIDENT:
            return f"{prefix_of(words[:-length])}{name}"
    return ""
