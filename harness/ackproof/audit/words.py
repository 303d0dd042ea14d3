"""Failures, effects and settings in an operator's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations_with_replacement, product

from ackproof.audit.answer import Effect, Failure, Failures, When

#: A failure, and several of it.
_EVENTS: Mapping[Failure, tuple[str, str]] = {
    Failure.LAG: ("followers fall behind", ""),
    Failure.CRASH: ("a broker crashes", "{} brokers crash"),
    Failure.CLEAN_RESTART: ("a clean restart", "{} clean restarts"),
    Failure.LEADER_MOVE: ("a planned leader move", "{} planned leader moves"),
    Failure.POWER_LOSS: ("a broker loses power", "{} brokers lose power"),
    Failure.DISK_REPLACED: ("a broker's disk is replaced", "the disks of {} brokers are replaced"),
    Failure.LOST_SESSION: ("a running broker is fenced", "{} running brokers are fenced"),
    Failure.RACK: ("a rack loses power", "{} racks lose power"),
    Failure.CONTROLLERS: ("the controllers' majority is gone", ""),
    Failure.CLIENT_CRASH: ("the producer crashes", "the producer crashes {} times"),
    Failure.CLIENT_TIMEOUT: ("a send times out", "{} sends time out"),
    Failure.CONSUMER_CRASH: ("a consumer crashes", "{} consumers crash"),
    Failure.REBALANCE: ("the group rebalances", "{} rebalances"),
    Failure.PARTITIONS_ADDED: ("partitions are added", ""),
}

#: What becomes of acked records, or of those who read and write.
EFFECTS: Mapping[Effect, str] = {
    Effect.LOST: "acknowledged records are lost",
    Effect.DUPLICATED: "records are written twice",
    Effect.REORDERED: "records change their order",
    Effect.UNPROCESSED: "consumers skip records",
    Effect.REPROCESSED: "consumers process records again",
    Effect.WRITES_STOP: "writes are refused",
    Effect.READS_STOP: "reads are refused",
    Effect.REMOVED: "retention or compaction removes acknowledged records",
    Effect.REFUSED: "the configuration is refused",
}

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def spelled(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


@cache
def phrase(failures: Failures, replicas: int | None = None) -> str:
    """Return failures in words, lag first. replicas: their number, if it is known."""
    counts = Counter(failures)
    if not counts:
        return "without any failure"
    parts = []
    for failure, (once, several) in _EVENTS.items():
        count = counts[failure]
        if failure is Failure.POWER_LOSS and 1 < count == replicas:
            parts.append(f"all {count} replicas lose power")
        elif count > 1 and several:
            parts.append(several.format(count))
        elif count:
            parts.append(once)
    if counts[Failure.LAG] and len(parts) > 1:
        return f"{parts[0]}, then {_joined(parts[1:])}"
    return _joined(parts)


def _joined(parts: list[str], by: str = "and") -> str:
    *head, last = parts
    return f"{', '.join(head)} {by} {last}" if head else last


#: What a broker does in failures that are alike, and what several do: the first four leave its log.
_WAYS: Mapping[Failure, tuple[str, str]] = {
    Failure.CRASH: ("crashes", "crash"),
    Failure.CLEAN_RESTART: ("restarts", "restart"),
    Failure.LEADER_MOVE: ("hands over its leaders", "hand over their leaders"),
    Failure.LOST_SESSION: ("is fenced", "are fenced"),
    Failure.POWER_LOSS: ("loses power", "lose power"),
    Failure.DISK_REPLACED: ("loses its disk", "lose their disks"),
}
_LOG_LOST = (Failure.POWER_LOSS, Failure.DISK_REPLACED)


@cache
def kinds(failures: Failures) -> tuple[str, ...]:
    """Return what failures that are alike have in common: how many brokers end, and lose a log."""
    if len(failures) == 1 and failures[0] in _WAYS:
        return ("one broker",)
    ended = {**dict.fromkeys(_WAYS, "ended"), **dict.fromkeys(_LOG_LOST, "log lost")}
    return tuple(sorted(ended.get(failure, failure.value) for failure in failures))


def phrase_of(alike: Sequence[Failures], replicas: int | None = None) -> str:
    """Return in words the sets of failures of which any one suffices; all have the same kinds."""
    first = alike[0]
    if len(alike) == 1:
        return phrase(first, replicas)
    if len(first) == 1:
        used = [failure for failure in _WAYS if (failure,) in alike]
        return f"a broker {_joined([_WAYS[failure][0] for failure in used], by='or')}"
    parts: list[str] = []
    ways: list[list[Failures]] = []
    for log_lost in (False, True):
        number = sum((one in _LOG_LOST) is log_lost for one in first if one in _WAYS)
        members = [one for one in _WAYS if (one in _LOG_LOST) is log_lost]
        used = [one for one in members if any(one in failures for failures in alike)]
        if number:
            ways.append(list(combinations_with_replacement(used, number)))
            who = f"{number} brokers" if number > 1 else "another one" if parts else "a broker"
            parts.append(f"{who} {_joined([_WAYS[one][number > 1] for one in used], by='or')}")
    others = tuple(failure for failure in first if failure not in _WAYS)
    every = {
        tuple(sorted((*others, *(one for way in each for one in way)))) for each in product(*ways)
    }
    if every != {tuple(sorted(failures)) for failures in alike}:
        others_like_it = "another set" if len(alike) == 2 else f"{len(alike) - 1} sets"
        return f"{phrase(first, replicas)}, or {others_like_it} like it"
    before = [phrase((failure,)) for failure in others]
    return f"{_joined(before)}, then {_joined(parts)}" if before else _joined(parts)


#: Short names for the heads of columns.
_SHORT = {
    "min.insync.replicas": "min.isr",
    "replication.factor": "replicas",
    "unclean.leader.election.enable": "unclean",
    "enable.idempotence": "idempotence",
    "kafka.version": "Kafka",
}


def short(setting: str, value: str) -> str:
    """Return a setting and its value as briefly as readers know them: `min.isr=2`, `Kafka 4.1`."""
    name = _SHORT.get(setting, setting)
    if setting == "enable.idempotence":
        return f"{name} {'on' if value == 'true' else 'off'}"
    return f"{name} {value}" if name == "Kafka" else f"{name}={value}"


def condition(when: When) -> str:
    """Return the assumed values of a risk: `with acks=1`; '' if it holds for all."""
    pairs = ", ".join(
        f"an application that {value}" if key == "application" else short(key, str(value))
        for key, value in when.items()
    )
    return f"with {pairs}" if pairs else ""


@cache
def covers(smaller: Failures, larger: Failures) -> bool:
    """Whether all events of `smaller` are among those of `larger`."""
    left = list(larger)
    for one in smaller:
        if one not in left:
            return False
        left.remove(one)
    return True


@cache
def within(failures: Failures) -> frozenset[Failures]:
    """Return all sets within a sorted set of failures, itself included."""
    smaller = {failures[:at] + failures[at + 1 :] for at in range(len(failures))}
    return frozenset([failures]).union(*map(within, smaller))


#: The ends of a broker, each worse than the one before it.
_ENDS = (Failure.CLEAN_RESTART, Failure.CRASH, Failure.POWER_LOSS, Failure.DISK_REPLACED)


def milder(one: Failures, other: Failures) -> bool:
    """Whether brokers end in milder ways in one set than in another, with the same other events."""
    ends = [sorted(map(_ENDS.index, filter(_ENDS.__contains__, each))) for each in (one, other)]
    rest = [Counter(event for event in each if event not in _ENDS) for each in (one, other)]
    alike = rest[0] == rest[1] and len(ends[0]) == len(ends[1])
    return alike and all(left <= right for left, right in zip(*ends, strict=True))
