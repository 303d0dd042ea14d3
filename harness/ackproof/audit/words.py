"""Failures, effects and settings in an operator's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations_with_replacement, product

from ackproof.audit.answer import Effect
from ackproof.audit.assumption import When
from ackproof.audit.failure import EVENTS, WAYS, Failure, Failures, kinds

#: What becomes of acked records, or of those who read and write.
EFFECTS: Mapping[Effect, str] = {
    Effect.LOST: "acknowledged records are lost",
    Effect.DUPLICATED: "records are written twice",
    Effect.REORDERED: "records change their order",
    Effect.UNPROCESSED: "consumers skip records",
    Effect.REPROCESSED: "consumers process records again",
    Effect.UNDELIVERED: "share groups never get records",
    Effect.ARCHIVED: "share groups give up records",
    Effect.WRITES_STOP: "writes are refused",
    Effect.READS_STOP: "reads are refused",
    Effect.REMOVED: "retention or compaction removes acknowledged records",
    Effect.REFUSED: "the configuration is refused",
}


@cache
def phrase(failures: Failures, replicas: int | None = None) -> str:
    """Return failures in words, lag first. replicas: their number, if it is known."""
    counts = Counter(failures)
    if not counts:
        return "without any failure"
    parts = []
    for failure, event in EVENTS.items():
        count = counts[failure]
        if event.all_replicas and 1 < count == replicas:
            parts.append(event.all_replicas.format(count))
        elif count > 1 and event.several:
            parts.append(event.several.format(count))
        elif count:
            parts.append(event.once)
    if counts[Failure.LAG] and len(parts) > 1:
        return f"{parts[0]}, then {_joined(parts[1:])}"
    return _joined(parts)


def _joined(parts: list[str], by: str = "and") -> str:
    *head, last = parts
    return f"{', '.join(head)} {by} {last}" if head else last


def phrase_of(alike: Sequence[Failures], replicas: int | None = None) -> str:
    """Return alternatives in words: any of these sets suffices. All have the same kinds."""
    first = alike[0]
    if len(alike) == 1:
        return phrase(first, replicas)
    if len(first) == 1:
        used = [failure for failure in WAYS if (failure,) in alike]
        return f"a broker {_joined([EVENTS[failure].a_broker for failure in used], by='or')}"
    parts: list[str] = []
    ways: list[list[Failures]] = []
    for log_lost in (False, True):
        number = sum(EVENTS[one].loses_log is log_lost for one in first if one in WAYS)
        members = [one for one in WAYS if EVENTS[one].loses_log is log_lost]
        used = [one for one in members if any(one in failures for failures in alike)]
        if number:
            ways.append(list(combinations_with_replacement(used, number)))
            who = f"{number} brokers" if number > 1 else "another one" if parts else "a broker"
            does = [EVENTS[one].brokers if number > 1 else EVENTS[one].a_broker for one in used]
            parts.append(f"{who} {_joined(does, by='or')}")
    others = tuple(failure for failure in first if failure not in WAYS)
    every = {
        tuple(sorted((*others, *(one for way in each for one in way)))) for each in product(*ways)
    }
    if every != {tuple(sorted(failures)) for failures in alike}:
        others_like_it = "another set" if len(alike) == 2 else f"{len(alike) - 1} sets"
        return f"{phrase(first, replicas)}, or {others_like_it} like it"
    return f"{phrase(others)}, then {_joined(parts)}" if others else _joined(parts)


def phrase_of_any(sets: Iterable[Failures], replicas: int | None = None) -> str:
    """Return alternatives of any kinds in words; of more than two kinds only the first."""
    alike: dict[object, list[Failures]] = {}
    for failures in sets:
        alike.setdefault(kinds(failures), []).append(failures)
    causes = [phrase_of(of_kind, replicas) for of_kind in alike.values()]
    return (
        " or ".join(causes)
        if len(causes) < 3
        else f"{causes[0]}, or {len(causes) - 1} other failures"
    )


#: Units of time, in milliseconds.
_UNITS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000}


def period(milliseconds: int) -> str:
    """Return a time in the largest unit of which it is a whole number: `7 days`, `1 hour`."""
    for unit, length in _UNITS.items():
        number, rest = divmod(milliseconds, length)
        if number and not rest:
            return f"{number:,} {unit}{'s' * (number != 1)}"
    return f"{milliseconds:,} ms"


#: Short names for the heads of columns.
_SHORT = {
    "min.insync.replicas": "min.isr",
    "replication.factor": "replicas",
    "unclean.leader.election.enable": "unclean",
    "enable.idempotence": "idempotence",
    "kafka.version": "Kafka",
}


#: Settings whose values are versions: `before 4.0`, `4.1 or later`.
_VERSIONS = ("kafka.version", "producer.version")


def short(setting: str, value: str) -> str:
    """Return a setting and its value as briefly as readers know them: `min.isr=2`, `Kafka 4.1`."""
    name = _SHORT.get(setting, setting)
    if setting == "enable.idempotence":
        return f"{name} {'on' if value == 'true' else 'off'}"
    return f"{name} {value}" if setting in _VERSIONS else f"{name}={value}"


#: Assumptions about an application, which no file states.
_ABOUT_CODE = {
    "application": "an application that {}",
    "consumers down": "consumers down {}",
    "processing": "processing {}",
    "commit": "a commit {}",
}


def condition(when: When) -> str:
    """Return the assumed values of a risk: `with acks=1`; '' if it holds for all."""
    pairs = ", ".join(
        _ABOUT_CODE[key].format(value) if key in _ABOUT_CODE else short(key, str(value))
        for key, value in when.items()
    )
    return f"with {pairs}" if pairs else ""
