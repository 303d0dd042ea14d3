"""Configurations drawn at random, and the schedules that test what an audit says of them.

Every loss of a configuration that the planner can make is a schedule, and each is carried out on
all configurations of a version: those that lose by it, and those that the audit says survive it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Self

from pydantic import TypeAdapter

from ackproof.audit.failure import EVENTS
from ackproof.audit.replication import found_sets, question_of
from ackproof.audit.setups import Setup, setups
from ackproof.own_config.configuration import Client, Count, FileLine, Given, OwnConfig, Topic
from ackproof_model.adversary import Budgets
from ackproof_model.configuration import Profile
from ackproof_model.perturbations import Counts
from ackproof_model.planning import (
    HEALS,
    Operation,
    OperationKind,
    Operations,
    Plan,
    carried_out,
    shortest_loss,
)
from ackproof_model.worst_case.minima import Question
from ackproof_model.worst_case.minima import stored as stored_minima

#: The origin of values that are drawn.
_DRAWN = FileLine("drawn", 1)
VERSIONS = ("2.6.2", "3.2.0", "3.5.1", "3.7.0", "3.8.1", "3.9.1", "4.1.2", "4.3.1", "4.4.0")
#: Racks of brokers in turn: brokers 1 and 3 are in the first.
RACKS = ("rack-0", "rack-1")
#: Schedules of one version.
_ROUNDS = 12
#: How operations are stored: as those of explorations.
_OPERATIONS = TypeAdapter(Operations)
#: Failures that are perturbations of the adversary, and operations that are failures.
_KINDS = {
    **{str(failure): event.perturbation for failure, event in EVENTS.items() if event.perturbation},
    "disk_replaced": "power_losses",
}
_FAILURES = {
    OperationKind.KILL: "crash",
    OperationKind.LOSE_POWER: "power_loss",
    OperationKind.STOP: "clean_restart",
    OperationKind.CUT_OFF: "lost_session",
}
#: Further failures, put before the last one of a schedule.
EXTRA = ("controllers", "leader_move")
LOSES, SURVIVES = "loses", "survives"

Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A configuration drawn at random."""

    kafka: str
    replicas: int
    minimum: int
    acks: str
    idempotence: bool
    unclean: bool
    racks: int

    @property
    def topic(self) -> dict[str, str]:
        return {
            "min.insync.replicas": str(self.minimum),
            "unclean.leader.election.enable": str(self.unclean).lower(),
        }

    def own(self) -> OwnConfig:
        """Return it as if files stated all of it."""
        racks = {str(one): RACKS[one % self.racks] for one in range(3)} if self.racks else {}
        client = {"acks": self.acks, "enable.idempotence": str(self.idempotence).lower()}
        return OwnConfig(
            kafka=_given(self.kafka),
            mode=_given("zookeeper" if Profile.of(self.kafka).zookeeper else "kraft"),
            brokers=Count(3, _DRAWN),
            controllers=Count(1, _DRAWN),
            racks={broker: _given(rack) for broker, rack in racks.items()},
            topics=(
                Topic(
                    name="orders",
                    replication_factor=_given(self.replicas),
                    settings={key: _given(value) for key, value in self.topic.items()},
                ),
            ),
            producers=(
                Client(
                    name="drawn",
                    library="librdkafka",
                    settings={key: _given(value) for key, value in client.items()},
                ),
            ),
        )


@cache
def _setup(drawn: Drawn) -> Setup:
    ((setup,),) = setups(drawn.own())
    return setup


def _given(value: object) -> Given:
    return Given(str(value), _DRAWN)


def draw(seed: int, number: int) -> Drawn:
    """Return a configuration that its client and its brokers accept."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311
    replicas = chance.choice((1, 2, 3, 3, 3))
    acks = chance.choice(("0", "1", "all", "all", "all"))
    return Drawn(
        kafka=chance.choice(VERSIONS),
        replicas=replicas,
        minimum=chance.randint(1, replicas),
        acks=acks,
        idempotence=acks == "all" and chance.random() < 0.5,
        unclean=chance.random() < 0.3,
        racks=chance.choice((0, 0, len(RACKS))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Operations on all configurations, and the further arguments of `attack`."""

    operations: tuple[Operation, ...]
    wiped: bool = False
    extra: str = ""

    def __str__(self) -> str:
        steps = [
            f"{one.kind.value} {one.broker + 1}{'' if one.settled else ' at once'}"
            for one in self.operations
        ]
        return ", ".join(
            [*steps, *(["disks wiped"] if self.wiped else []), *filter(None, [self.extra])]
        )

    def document(self) -> Result:
        operations = _OPERATIONS.dump_python(self.operations, mode="json")
        return {"operations": operations, "wiped": self.wiped, "extra": self.extra}

    @classmethod
    def of(cls, document: Result) -> Self:
        operations = _OPERATIONS.validate_python(document["operations"], strict=False)
        return cls(operations=operations, wiped=document["wiped"], extra=document["extra"])

    @property
    def takes_racks(self) -> bool:
        """Whether brokers lose power at once: those of a rack."""
        return any(
            one.kind is OperationKind.LOSE_POWER and not one.settled for one in self.operations
        )

    def failures(self, replicas: int, *, racked: bool = False) -> tuple[str, ...]:
        """Return the set of failures that it makes for a topic; racked: with racks, as it has."""
        own = [one for one in self.operations if one.broker < replicas]
        kinds = Counter(one.kind for one in own)
        made = [_FAILURES[one.kind] for one in own if one.kind in _FAILURES]
        made += ["lag"] * math.ceil(kinds[OperationKind.LAG] / max(replicas - 1, 1))
        if self.wiped:
            made = ["disk_replaced" if one == "power_loss" else one for one in made]
        if racked and self.takes_racks:
            lost = {one.broker % len(RACKS) for one in own if one.kind is OperationKind.LOSE_POWER}
            made = [one for one in made if one != "power_loss"] + ["rack"] * len(lost)
        return tuple(sorted([*made, *filter(None, [self.extra])]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A word of the audit that a schedule tests; contradicted: the model itself refutes it."""

    word: str
    failures: tuple[str, ...]
    plan: Plan
    contradicted: bool = False


def claim(drawn: Drawn, schedule: Schedule) -> Claim | None:
    """Return what the audit says of a schedule's failures; None if it says nothing to test."""
    found = found_sets(_setup(drawn))
    plan = _of_topic(question_of(_setup(drawn)), schedule.operations)
    if plan is None:
        return None
    failures = schedule.failures(drawn.replicas, racked=bool(drawn.racks))
    loses = any(not Counter(one.failures) - Counter(failures) for one in found.losing)
    if loses and not schedule.extra and (plan.lost or drawn.acks == "0"):
        return Claim(word=LOSES, failures=failures, plan=plan)
    if not loses and found.keeps(failures):
        return Claim(word=SURVIVES, failures=failures, plan=plan, contradicted=bool(plan.lost))
    return None


def _losing(question: Question, counts: Counts) -> Plan | None:
    """Return the schedule of the shortest stored way to a loss within a budget."""
    known = stored_minima().get(question.key)
    found = known.lost_by(counts) if known else None
    if found is None or found.counts.leader_moves:
        return None
    return _realized(question, found.counts)


@cache
def _of_topic(question: Question, operations: tuple[Operation, ...]) -> Plan | None:
    """Return the plan of the operations on a topic's brokers; the others leave it as it is.

    None if one of them is not possible, or if a follower lags although that is no failure of them.
    """
    own: list[Operation] = []
    numbers = [0]
    for one in operations:
        if one.broker < question.replicas:
            own.append(one)
        elif own and own[-1].kind not in HEALS:  # its timers fire in the meantime
            own[-1] = replace(own[-1], settled=True)
        numbers.append(len(own))
    plan = carried_out(question.model(), own) if own else None
    if plan is None or any(stage.strays for stage in plan.stages):
        return None
    return replace(plan, stages=tuple(plan.stages[one] for one in numbers))


@cache
def _realized(question: Question, counts: Counts) -> Plan | None:
    """Return the shortest schedule within a budget that loses records, on any brokers."""
    budgets: dict[str, Any] = {kind: int(number) for kind, number in asdict(counts).items()}
    return shortest_loss(question.model(budgets=Budgets(**budgets)))


def _budget(question: Question, failures: Sequence[str]) -> Counts | None:
    """Return the perturbations of failures; None if a schedule cannot make them."""
    counts: Counter[str] = Counter()
    for failure in failures:
        kind = _KINDS.get(failure)
        if kind is None or (kind == "shrinks" and question.model().profile.zookeeper):
            return None
        counts[kind] += question.replicas - 1 if kind == "shrinks" else 1
    return Counts(**counts)


def schedules(drawn: Drawn) -> Iterator[Schedule]:
    """Yield the schedules of a configuration's losses: attacks on configurations that survive."""
    question = question_of(_setup(drawn))
    for loss in found_sets(_setup(drawn)).losing:
        yield from _as_schedule(question, loss.failures)


def _as_schedule(question: Question, failures: tuple[str, ...]) -> Iterator[Schedule]:
    counts = _budget(question, failures)
    plan = _losing(question, counts) if counts else None
    if plan is not None:
        wiped = "disk_replaced" in failures and "power_loss" not in failures
        for extra in ("", *EXTRA):
            yield Schedule(operations=plan.operations, wiped=wiped, extra=extra)


def simple(kafka: str) -> Iterator[Schedule]:
    """Yield a leader's loss of power, and one that another broker's failure precedes.

    They are possible for nearly all configurations. With ZooKeeper no follower can be cut off.
    """
    power = (
        Operation(kind=OperationKind.LOSE_POWER, broker=0),
        Operation(kind=OperationKind.START, broker=0),
    )
    before = OperationKind.KILL if Profile.of(kafka).zookeeper else OperationKind.LAG
    yield Schedule(operations=power)
    yield Schedule(operations=(Operation(kind=before, broker=1), *power))


def of_racks(kafka: str) -> Iterator[Schedule]:
    """Yield losses of a rack: alone, after another broker's failure, and with a further one."""
    lost = [Operation(kind=OperationKind.LOSE_POWER, broker=2)]
    lost.insert(0, replace(lost[0], broker=0, settled=False))
    starts = [Operation(kind=OperationKind.START, broker=one) for one in (0, 2)]
    before = [OperationKind.KILL, OperationKind.STOP, OperationKind.CUT_OFF]
    if not Profile.of(kafka).zookeeper:
        before.insert(0, OperationKind.LAG)
    for kind in before:
        first = Operation(kind=kind, broker=1)
        yield Schedule(operations=(first, *lost, *starts))
    other = Operation(kind=OperationKind.LOSE_POWER, broker=1)
    yield Schedule(operations=(*lost, other, *starts))
    for extra in ("", *EXTRA):
        yield Schedule(operations=(*lost, *starts), extra=extra)


def chosen(seed: int, numbers: Sequence[int]) -> Iterator[Schedule]:
    """Yield the schedules that together test the most words about these configurations."""
    if not numbers:
        return
    kafka = draw(seed, numbers[0]).kafka
    first = (*simple(kafka), *of_racks(kafka))
    claims = {
        schedule: {
            (number, one.word, one.failures)
            for number, one in claims_of(seed, numbers, schedule).items()
        }
        for schedule in dict.fromkeys(
            (*first, *(one for number in numbers for one in schedules(draw(seed, number))))
        )
    }
    tested: set[object] = set()
    for schedule in first:
        if said := claims.pop(schedule):
            yield schedule
            tested |= said

    def gain(schedule: Schedule, word: str) -> int:
        """Return the number of failures in words of this kind that no schedule tests yet."""
        new = claims[schedule] - tested
        return sum(len(failures) for _, one, failures in new if one == word)

    for number in range(_ROUNDS):
        word = (LOSES, SURVIVES)[number % 2]
        best = max(claims, key=lambda one: gain(one, word), default=None)
        if best is not None and claims[best] - tested:
            yield best
            tested |= claims.pop(best)


def claims_of(seed: int, numbers: Sequence[int], schedule: Schedule) -> dict[int, Claim]:
    """Return the words that a schedule tests, by the number of the configuration."""
    claims = {number: claim(draw(seed, number), schedule) for number in numbers}
    return {number: one for number, one in claims.items() if one is not None}
