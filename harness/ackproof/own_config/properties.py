"""Reads settings `key=value` in the syntax of Java properties."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ackproof.own_config.names import is_known
from ackproof.own_config.parts import Part, RefusalError, Source
from ackproof.own_config.tree import Text

#: The setting that every connector of Kafka Connect has.
CONNECTOR = "connector.class"
#: How the settings of the producer of Debezium Server begin.
OF_DEBEZIUM = "debezium.sink.kafka.producer."


def parse(text: str, first: int = 1) -> dict[str, Text]:
    """Return the settings of Java properties; the last of equal keys is used, as in Java.

    first: the number of the first line. Raises RefusalError for a malformed escape.
    """
    import javaproperties

    settings: dict[str, Text] = {}
    line = first
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                settings[element.key.strip()] = Text.at(element.value.strip(), line)
            line += len(element.source.splitlines())
    except javaproperties.InvalidUEscapeError as error:
        raise RefusalError(f"line {line}: {error}") from None
    return settings


def read_as(
    source: Source, read_settings: Callable[[Source, Mapping[str, Text]], Part | None]
) -> Part | None:
    """Read a file of settings with `read_settings`."""
    repeated = _repeated(source)
    pairs = parse(source.text)
    named = re.compile(r"[A-Za-z0-9_][\w.>*-]*")
    odd = {
        key: value
        for key, value in pairs.items()
        if not named.fullmatch(key) or value.endswith("{")
    }
    if 5 * len(odd) > len(pairs):
        return None  # a program or prose, which has a line that looks like a setting
    part = read_settings(source, {key: value for key, value in pairs.items() if key not in odd})
    repeated += [
        f"{source.name}:{value.line}: {key[:60]!r} is not a setting: not used"
        for key, value in odd.items()
    ]
    source.warnings.extend(repeated if part else ())
    return part


def _repeated(source: Source) -> list[str]:
    seen: dict[str, int] = {}
    warnings = []
    for number, line in enumerate(source.lines, start=1):
        match = re.match(r"\s*([\w.%\"\-]+)\s*=", line)
        if match and (first := seen.setdefault(match[1], number)) != number:
            warnings.append(
                f"{source.name}:{number}: {match[1]} stands twice (first in line {first}): the "
                "last one is taken, as in Java"
            )
    return warnings


def listed(text: str, number: int) -> dict[str, Text]:
    """Return the settings of `a=1,b=delete,compact`; values may contain commas."""
    pairs = re.split(r",(?=[A-Za-z0-9._-]+=)", text.strip())
    return {
        key.strip(): Text.at(value, number)
        for key, equals, value in (pair.partition("=") for pair in pairs)
        if equals
    }


def settings_in(value: Text) -> dict[str, Text]:
    """Return the settings of a text inside another file; empty if most of them are not Kafka's.

    A text in quotes stands in one line of the file.
    """
    if "=" not in value or not (value.block or "\n" in value):
        return {}
    try:
        pairs = parse(str(value), value.line + 1)
    except RefusalError:
        return {}
    if not value.block:
        pairs = {key: Text.at(str(one), value.line) for key, one in pairs.items()}
    special = CONNECTOR in pairs or any(key.startswith(OF_DEBEZIUM) for key in pairs)
    of_kafka = special or 2 * sum(map(is_known, pairs)) >= len(pairs)
    return pairs if of_kafka else {}
