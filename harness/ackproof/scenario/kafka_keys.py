"""The configuration keys of Kafka, by version.

`ci/kafka_keys` asks some versions and writes `kafka_keys.json`: for each key the first and the last
of these versions that knows it.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ackproof.kafka_versions import numbers

Scope = Literal["broker", "topic", "producer", "consumer"]
#: The admin client, and what is built on Kafka's clients; Connect has MirrorMaker 2's names, too.
Framework = Literal["admin", "connect", "streams"]


@cache
def _document() -> dict[str, Any]:
    path = Path(__file__).with_name("kafka_keys.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


@cache
def known(scope: Scope | Framework) -> frozenset[str]:
    return frozenset(_document()[scope])


def ignored(scope: Scope, key: str, kafka: str) -> str:
    """Return why this version ignores a key; '' if it may know the key.

    `kafka` is the version of the brokers, or of the Java client.
    """
    span = _document()[scope].get(key)
    if span is None:
        near = get_close_matches(key, _document()[scope], n=1, cutoff=0.8)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        return f"Kafka has no {scope} setting of this name{guess}"
    versions = _document()["versions"]
    first, last = span
    who = f"Kafka {kafka}" if scope in ("broker", "topic") else f"the Java client {kafka}"
    # A line gets no keys after its first release.
    if first and numbers(kafka)[:-1] <= numbers(versions[first - 1])[:-1]:
        return f"{who} ignores it: it came after {versions[first - 1]}"
    if last + 1 < len(versions) and numbers(kafka) >= numbers(versions[last + 1]):
        return f"{who} ignores it: {versions[last]} is the last version asked that knows it"
    return ""
