"""The failures that an audit knows, what each does to a broker, and how sets of them compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ackproof.own_config.configuration import Holder, Storage


class Failure(StrEnum):
    """An event in an operator's words; `EVENTS` says what each means."""

    CRASH = "crash"
    CLEAN_RESTART = "clean_restart"
    RECREATED = "recreated"
    LEADER_MOVE = "leader_move"
    REASSIGNMENT = "reassignment"
    POWER_LOSS = "power_loss"
    DISK_REPLACED = "disk_replaced"
    LAG = "lag"
    LOST_SESSION = "lost_session"
    RACK = "rack"
    CONTROLLERS = "controllers"
    CLIENT_CRASH = "client_crash"
    CLIENT_TIMEOUT = "client_timeout"
    CONSUMER_CRASH = "consumer_crash"
    REBALANCE = "rebalance"
    PARTITIONS_ADDED = "partitions_added"


#: A multiset of failures, sorted in the order of `Failure`.
Failures = tuple[Failure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a failure is.

    once, several: the failure as a clause, so that any set of failures can be joined in a sentence;
    a number fills the braces. all_replicas: a clause about all replicas. a_broker, brokers: what
    one or several brokers do, in a sentence about similar failures; '' for other events. loses_log:
    whether a log may lose records, whatever holds it. in_turn: whether one ordinary step, such as a
    rolling update, causes it for several brokers, one after the other. of_site: whether several
    machines end at once. severity: of the end of a broker, from 1 for the mildest; 0 for other
    events. perturbation: the model's perturbation by which a schedule causes the failure; '' if no
    schedule can.
    """

    meaning: str
    once: str
    several: str = ""
    all_replicas: str = ""
    a_broker: str = ""
    brokers: str = ""
    loses_log: bool = False
    in_turn: bool = False
    of_site: bool = False
    severity: int = 0
    perturbation: str = ""


#: In the order in which a sentence names them.
EVENTS: Mapping[Failure, Event] = {
    Failure.LAG: Event(
        meaning="the followers are slow or cut off until they leave the ISR, however many",
        once="followers fall behind",
        perturbation="shrinks",
    ),
    Failure.REASSIGNMENT: Event(
        meaning="an operator moves replicas to other brokers, or cancels such a move",
        once="replicas are moved to other brokers",
        several="replicas are moved {} times",
    ),
    Failure.CRASH: Event(
        meaning="a broker's process dies; its log stays",
        once="a broker crashes",
        several="{} brokers crash",
        a_broker="crashes",
        brokers="crash",
        severity=2,
        perturbation="kills",
    ),
    Failure.CLEAN_RESTART: Event(
        meaning="a controlled shutdown and a start",
        once="a broker restarts",
        several="{} brokers restart",
        a_broker="restarts",
        brokers="restart",
        severity=1,
        perturbation="clean_stops",
    ),
    Failure.RECREATED: Event(
        meaning="a broker's pod or container is replaced; its log is gone if no volume holds it",
        once="a broker's pod or container is replaced",
        several="the pods or containers of {} brokers are replaced",
        all_replicas="the pods or containers of all {} replicas are replaced (a rolling update)",
        in_turn=True,
        severity=3,
    ),
    Failure.LEADER_MOVE: Event(
        meaning="a planned election of another member of the ISR",
        once="the leader is moved",
        several="the leader is moved {} times",
        a_broker="hands over its leaders",
        brokers="hand over their leaders",
    ),
    Failure.POWER_LOSS: Event(
        meaning="a broker's machine dies, and its log loses what was not flushed",
        once="a broker loses power",
        several="{} brokers lose power",
        all_replicas="all {} replicas lose power",
        a_broker="loses power",
        brokers="lose power",
        loses_log=True,
        severity=4,
        perturbation="power_losses",
    ),
    Failure.DISK_REPLACED: Event(
        meaning="a broker returns with empty disks",
        once="a broker's disk is replaced",
        several="the disks of {} brokers are replaced",
        a_broker="loses its disk",
        brokers="lose their disks",
        loses_log=True,
        severity=5,
    ),
    Failure.LOST_SESSION: Event(
        meaning="the controller fences a broker that runs",
        once="a running broker is fenced",
        several="{} running brokers are fenced",
        a_broker="is fenced",
        brokers="are fenced",
        perturbation="fencings",
    ),
    Failure.RACK: Event(
        meaning="all brokers of a rack lose power",
        once="a rack loses power",
        several="{} racks lose power",
        loses_log=True,
        of_site=True,
    ),
    Failure.CONTROLLERS: Event(
        meaning="the majority of the controllers is gone",
        once="the controllers' majority is gone",
        of_site=True,
    ),
    Failure.CLIENT_CRASH: Event(
        meaning="a producer dies",
        once="the producer crashes",
        several="the producer crashes {} times",
    ),
    Failure.CLIENT_TIMEOUT: Event(
        meaning="a send gets no answer in time",
        once="a send times out",
        several="{} sends time out",
    ),
    Failure.CONSUMER_CRASH: Event(
        meaning="a consumer dies", once="a consumer crashes", several="{} consumers crash"
    ),
    Failure.REBALANCE: Event(
        meaning="partitions move to another member",
        once="the group rebalances",
        several="the group rebalances {} times",
    ),
    Failure.PARTITIONS_ADDED: Event(
        meaning="the topic gets more partitions", once="partitions are added"
    ),
}
#: Failures of routine operation, of which a promise of "any 1 failure" speaks; RECREATED only where
#: no volume holds the logs.
ORDINARY = (Failure.CRASH, Failure.CLEAN_RESTART, Failure.RECREATED, Failure.LEADER_MOVE)
#: Those by which a topic of Kafka's own loses its newest records.
OF_TOPICS = (
    *ORDINARY,
    *(Failure.POWER_LOSS, Failure.DISK_REPLACED, Failure.LAG, Failure.LOST_SESSION, Failure.RACK),
)
#: Failures after which a log may lack records.
LOG_LOST = frozenset(failure for failure, event in EVENTS.items() if event.loses_log)
#: Failures that are alike: what a broker does in each. Those that leave its log come first.
WAYS = sorted(
    (failure for failure, event in EVENTS.items() if event.a_broker),
    key=lambda failure: EVENTS[failure].loses_log,
)


@cache
def how_rare(failures: Failures) -> tuple[int, int]:
    """Return how rare a set of failures is: by its kind, then by its number of events.

    Everyday events such as a restart come first, also two of them. Then comes a machine that loses
    its log, and last a site: a rack, the controllers, or the logs of several machines. One rolling
    update replaces any number of pods.
    """
    logs = sum(EVENTS[failure].loses_log for failure in failures)
    of_site = logs > 1 or any(EVENTS[failure].of_site for failure in failures)
    in_turn = [failure for failure in failures if EVENTS[failure].in_turn]
    return (2 if of_site else logs, len(failures) - len(in_turn) + len(set(in_turn)))


def emptied(storage: Storage | None) -> frozenset[Failure]:
    """Return the failures after which a broker has an empty log because no volume holds it."""
    if storage is None or storage.holder is Holder.VOLUME:
        return frozenset()
    ended = {Failure.RECREATED}
    if not storage.restart_keeps:
        ended |= {Failure.CRASH, Failure.CLEAN_RESTART}
    return frozenset(ended)


@cache
def kinds(failures: Failures) -> tuple[str, ...]:
    """Return what similar failures share: how many brokers end, and how many lose their log."""
    if len(failures) == 1 and failures[0] in WAYS:
        return ("one broker",)
    return tuple(sorted(map(_kind, failures)))


def _kind(failure: Failure) -> str:
    if not EVENTS[failure].a_broker:
        return failure.value
    return "log lost" if EVENTS[failure].loses_log else "ended"


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


@cache
def milder(one: Failures, other: Failures) -> bool:
    """Whether brokers end in milder ways in one set than in another, with the same other events."""
    (ends, others), (worse, rest) = _ends(one), _ends(other)
    alike = others == rest and len(ends) == len(worse)
    rarer = alike and how_rare(one) > how_rare(other)  # a rolling update is one event
    return (
        alike and not rarer and all(left <= right for left, right in zip(ends, worse, strict=True))
    )


@cache
def _ends(failures: Failures) -> tuple[tuple[int, ...], Failures]:
    """Return how severely brokers end, the mildest first, and the other events."""
    severities = sorted(filter(None, (EVENTS[event].severity for event in failures)))
    return tuple(severities), tuple(sorted(one for one in failures if not EVENTS[one].severity))
