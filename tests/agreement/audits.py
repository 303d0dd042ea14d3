"""Configurations and sets of failures for comparisons of an audit with the exact search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from predictions_draw import VERSIONS

from ackproof.audit.answer import Effect
from ackproof.audit.auditing import answered
from ackproof.audit.failure import Failure, covers
from ackproof.audit.setups import Setup, setups
from ackproof.kafka_versions import has_idempotence, uses_zookeeper
from ackproof.own_config.configuration import Client, Count, Given, NoFile, OwnConfig, Topic
from ackproof_model import AnyTime, Cuts, Elects, Ends, Injection, QuorumLost, Role
from ackproof_model.effects import Effect as FaultEffect
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.predict import as_read
from ackproof_model.prediction.search import explore
from ackproof_model.replication.state import NOBODY, UP, Broker, Controller, initial

ANY_ONE, LEADER = frozenset({Role.ANY_ONE}), frozenset({Role.LEADER})
#: What the exact search knows of each failure, and which brokers it hits; it knows no racks.
FAILURES: dict[Failure, tuple[FaultEffect, frozenset[Role | int]]] = {
    Failure.CRASH: (Ends(), ANY_ONE),
    Failure.CLEAN_RESTART: (Ends(clean=True), ANY_ONE),
    Failure.LEADER_MOVE: (Elects(topic="orders", partition=None, unclean=False), frozenset()),
    Failure.POWER_LOSS: (Ends(log="prefix"), ANY_ONE),
    Failure.DISK_REPLACED: (Ends(log="empty"), ANY_ONE),
    Failure.LAG: (Cuts(channels=("replication",), served=True), LEADER),
    Failure.LOST_SESSION: (Cuts(channels=("controllers",)), ANY_ONE),
    Failure.CONTROLLERS: (QuorumLost(), frozenset()),
    Failure.CLIENT_TIMEOUT: (Cuts(channels=("clients",)), LEADER),
}
EFFECTS = {
    "lost": Effect.LOST,
    "duplicated": Effect.DUPLICATED,
    "reordered": Effect.REORDERED,
}
PRODUCERS = (("0", "false"), ("1", "false"), ("all", "false"), ("all", "true"))
REPLICAS = ((3, 1), (3, 2), (2, 1), (1, 1))


def _given(value: object) -> Given:
    return Given(str(value), NoFile.CHOSEN)


def audited(
    kafka: str, producer: tuple[str, str], replicas: tuple[int, int], unclean: str
) -> Setup:
    """Return the only setup of a configuration in which everything is stated."""
    acks, idempotence = producer
    own = OwnConfig(
        kafka=_given(kafka),
        mode=_given("zookeeper" if uses_zookeeper(kafka) else "kraft"),
        brokers=Count(3, NoFile.CHOSEN),
        topics=(
            Topic(
                name="orders",
                replication_factor=_given(replicas[0]),
                settings={
                    "min.insync.replicas": _given(replicas[1]),
                    "unclean.leader.election.enable": _given(unclean),
                },
            ),
        ),
        producers=(
            Client(
                name="producer",
                library="librdkafka",
                settings={
                    "acks": _given(acks),
                    "enable.idempotence": _given(idempotence),
                    "max.in.flight.requests.per.connection": _given(5),
                },
            ),
        ),
    )
    ((setup,),) = setups(own)
    return setup


def configurations() -> Iterator[Setup]:
    for kafka in VERSIONS:
        for producer in PRODUCERS:
            if producer[1] == "true" and not has_idempotence(kafka):
                continue
            for replicas in REPLICAS:
                for unclean in ("false", "true"):
                    yield audited(kafka, producer, replicas, unclean)


def happens(setup: Setup, failures: Sequence[Failure]) -> bool:
    """Whether these failures can happen, and have a meaning for the producer."""
    if setup.partition.replication_factor == 1 and {Failure.LAG, Failure.LEADER_MOVE} & {*failures}:
        return False
    return setup.partition.acks != "0" or Failure.CLIENT_TIMEOUT not in failures


class Found:
    """What the exact search finds, by configuration and failures. most: the most states of each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.ended = 0
        self._known: dict[object, frozenset[Effect]] = {}

    @property
    def number(self) -> int:
        return len(self._known)

    def effects(self, setup: Setup, failures: tuple[Failure, ...]) -> frozenset[Effect]:
        """Return the effects after these failures in this order, at any times."""
        key = as_read(setup.partition), failures
        if key not in self._known:
            schedule = tuple(map(_injection, failures))
            model = Model(setup.partition, schedule)
            if Failure.LEADER_MOVE in failures:
                model = replace(model, start=_led_by_another(model.replicas))
            explored = explore(model, max_states=self.most)
            self.ended += explored.complete
            self._known[key] = frozenset(
                effect for name, effect in EFFECTS.items() if explored.having[name]
            )
        return self._known[key]


def _injection(failure: Failure) -> Injection:
    effect, targets = FAILURES[failure]
    return Injection(
        fault=failure.value,
        effects=(effect,),
        targets=targets,
        when=(AnyTime(),),
        heal_when=(AnyTime(),),
    )


def _led_by_another(replicas: int) -> tuple[Controller, tuple[Broker, ...]]:
    """Return a cluster whose leader is not the preferred one, to which leadership can move."""
    controller, _ = initial(replicas)
    follower = Broker(UP, clean=False, log=(), leader=1, epoch=0)
    ends = (0, NOBODY, *(0,) * (replicas - 2))
    leader = follower._replace(isr=controller.isr, remote=ends)
    brokers = (follower, leader, *(follower,) * (replicas - 2))
    return controller._replace(leader=1), brokers


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What an audit allows: the failures of its risks by effect, and those it does not decide."""

    risks: dict[Effect, list[tuple[Failure, ...]]]
    undecided: tuple[tuple[Failure, ...], ...]

    @classmethod
    def of(cls, setup: Setup) -> Allowed:
        answer = answered([setup])
        risks: dict[Effect, list[tuple[Failure, ...]]] = {effect: [] for effect in Effect}
        for risk in answer.of(0):
            risks[risk.effect].append(risk.failures)
        return cls(risks=risks, undecided=answer.undecided[0])

    def allows(self, effect: Effect, failures: Sequence[Failure]) -> bool:
        every = tuple(sorted(failures, key=list(Failure).index))
        smaller = [*self.risks[effect], *(self.undecided if effect is Effect.LOST else ())]
        return any(covers(one, every) for one in smaller)
