"""Drawn schedules do not refute that replicas that move lose nothing by themselves.

The controller is the port of Kafka's own classes. Each broker has a log; metadata arrive at once.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile

import pytest

from ackproof_model import Configuration, Likelihood
from ackproof_model.kafka.partition_change import Election, Registration
from ackproof_model.perturbations import Counts, WorstCase
from ackproof_model.replication.controller import cancellation_target, reassignment_target
from ackproof_model.worst_case import answer
from unit.reference_model.validation.controller_log import ORDERS, Controller

BROKERS = range(1, 6)
MIN_ISR = 2
#: How much more often than once a kind of step is taken, so that moves are completed.
OFTEN = {"fetch": 8, "join": 8, "start": 4, "write": 4, "move": 2}

Step = tuple[str, Callable[[], None]]


class Partition:
    """A partition of three replicas on five brokers.

    moves: how often replicas may be reassigned. careless: replicas join the ISR before they have
    what its members have.
    """

    def __init__(
        self,
        version: tuple[int, ...],
        *,
        moves: float,
        cancels: bool,
        careless: bool,
        **settings: bool,
    ) -> None:
        self.kafka = Controller(
            version, min_isr=MIN_ISR, brokers=5, metadata_version=20, **settings
        )
        self.moves, self.cancels, self.careless = moves, cancels, careless
        self.running = set(BROKERS)
        self.logs: dict[int, tuple[tuple[int, int], ...]] = dict.fromkeys(BROKERS, ())
        self.acked: set[tuple[int, int]] = set()
        self.epoch, self.start, self.written = 0, 0, 0

    @property
    def now(self) -> Registration:
        return self.kafka.state.partitions[ORDERS]

    @property
    def lost(self) -> bool:
        return self.now.leader != -1 and not self.acked <= set(self.logs[self.now.leader])

    def _active(self, broker: int) -> bool:
        return broker in self.running and not self.kafka.state.brokers[broker].fenced

    def _common(self, broker: int) -> int:
        """Return how many records a replica shares with the leader."""
        pairs = zip(self.logs[broker], self.logs[self.now.leader], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def steps(self, chance: random.Random) -> Iterator[Step]:
        now = self.now
        for broker in BROKERS:
            if broker in self.running:
                yield "kill", partial(self.running.remove, broker)
            else:
                yield "start", partial(self._start, broker)
            if not self.kafka.state.brokers[broker].fenced and broker not in self.running:
                yield "fence", partial(self.kafka.fence, broker)
        if now.adding or now.removing:
            if self.cancels:
                yield "cancel", self._cancel
        elif self.moves:
            yield "move", partial(self._move, tuple(chance.sample(BROKERS, 3)))
        if now.leader == -1 or not self._active(now.leader):
            return
        yield "elect", partial(self.kafka.elect, Election.PREFERRED)
        yield "write", self._write
        for broker in set(now.replicas) - {now.leader}:
            if broker in self.running:
                yield "fetch", partial(self._fetch, broker)
            if broker in now.isr:
                without = tuple(one for one in now.isr if one != broker)
                yield "leave", partial(self.kafka.ask, isr=without)
            elif self._active(broker) and (self.careless or self._caught_up(broker)):
                yield "join", partial(self.kafka.ask, isr=(*now.isr, broker))

    def after(self, step: Callable[[], None]) -> None:
        step()
        now = self.now
        for gone in set(BROKERS) - set(now.replicas):
            self.logs[gone] = ()
        if now.leader == -1:
            return
        if now.leader_epoch != self.epoch:
            self.epoch, self.start = now.leader_epoch, len(self.logs[now.leader])
        if self._active(now.leader) and len(now.isr) >= MIN_ISR:
            self.acked |= set.intersection(*(set(self.logs[one]) for one in now.isr))

    def _write(self) -> None:
        self.written += 1
        self.logs[self.now.leader] += ((self.now.leader_epoch, self.written),)

    def _fetch(self, broker: int) -> None:
        self.logs[broker] = self.logs[self.now.leader][: self._common(broker) + 1]

    def _caught_up(self, broker: int) -> bool:
        high_watermark = min(self._common(one) for one in self.now.isr)
        return self._common(broker) >= max(high_watermark, self.start)

    def _start(self, broker: int) -> None:
        if not self.kafka.state.brokers[broker].fenced:
            self.kafka.fence(broker)
        self.running.add(broker)
        self.kafka.register(broker, clean=False)
        self.kafka.unfence(broker)

    def _move(self, target: tuple[int, ...]) -> None:
        asked = reassignment_target(self.now, target)
        self.kafka.ask(replicas=asked.replicas, removing=asked.removing, adding=asked.adding)
        self.moves -= 1

    def _cancel(self) -> None:
        if set(self.now.isr) - set(self.now.adding):
            asked = cancellation_target(self.now, Election.ONLINE)
            assert asked is not None
            self.kafka.ask(replicas=asked.replicas, isr=asked.isr, removing=(), adding=())


def walks(
    version: tuple[int, ...],
    *,
    moves: float = math.inf,
    cancels: bool = True,
    careless: bool = False,
    tries: int = 60,
    **settings: bool,
) -> tuple[bool, Counter[str]]:
    """Return whether one of several random walks loses an acked record, and the steps."""
    chance = random.Random(11)
    made: Counter[str] = Counter()
    for _ in range(tries):
        partition = Partition(version, moves=moves, cancels=cancels, careless=careless, **settings)
        for _ in range(150):
            steps = list(partition.steps(chance))
            kinds = sorted({kind for kind, _ in steps})
            [kind] = chance.choices(kinds, [OFTEN.get(kind, 1) for kind in kinds])
            moving = bool(partition.now.removing)
            partition.after(chance.choice([step for name, step in steps if name == kind]))
            made[kind] += 1
            made["moved"] += kind == "join" and moving and not partition.now.removing
            if partition.lost:
                return True, made
        made["acked"] += len(partition.acked)
    return False, made


def _configuration(version: str, *, elr: bool) -> Configuration:
    return Configuration(
        kafka_version=version,
        acks="all",
        idempotence=True,
        retries=3,
        max_in_flight=5,
        replication_factor=3,
        min_insync_replicas=MIN_ISR,
        elr=elr,
    )


@pytest.mark.parametrize(
    ("version", "elr", "moves", "cancels", "impossible"),
    [
        ("3.9.1", False, math.inf, True, True),
        ("4.1.1", True, 1, True, True),
        pytest.param("4.2.1", True, math.inf, False, True, marks=pytest.mark.slow),
        pytest.param("4.2.1", True, math.inf, True, False, marks=pytest.mark.slow),
        pytest.param("4.3.1", True, 1, True, True, marks=pytest.mark.slow),
        ("4.3.1", True, math.inf, True, False),
    ],
)
def test_drawn_reassignments_do_not_refute_that_a_loss_is_impossible(
    version: str, elr: bool, moves: float, cancels: bool, impossible: bool
) -> None:
    given = _configuration(version, elr=elr)
    ends = Counts(kills=9, shrinks=9, fencings=9)
    moving = WorstCase(counts=ends, moves=moves, cancelled=cancels)
    found = answer.predict(given, moving, "replicas move")
    assert (found.likelihood["lost"] is Likelihood.IMPOSSIBLE) is impossible
    kafka = tuple(map(int, version.split(".")))
    # A loss by a cancellation alone takes some hundred.
    tries = 60 if impossible else 400
    loses, made = walks(kafka, moves=moves, cancels=cancels, elr=elr, tries=tries)
    assert loses is not impossible
    if impossible:
        assert made["moved"] > 10
        assert made["acked"] > 100


@pytest.mark.parametrize(
    ("version", "worst", "impossible"),
    [
        ("4.2.1", {}, True),
        ("4.2.1", {"fewest": 2}, True),
        ("4.2.1", {"fewest": 1}, False),
        ("4.2.1", {"lowered": 2}, False),
        ("4.2.1", {"cancelled": True}, False),
        ("4.2.1", {"versions": ("4.3.1",)}, False),
        ("4.3.1", {}, False),
    ],
)
def test_a_move_that_waits_for_all_its_replicas_removes_none_that_stays_eligible(
    version: str, worst: dict[str, object], impossible: bool
) -> None:
    given = WorstCase(counts=Counts(kills=1, shrinks=2), moves=2, **worst)
    found = answer.predict(_configuration(version, elr=True), given, "replicas move")
    assert (found.likelihood["lost"] is Likelihood.IMPOSSIBLE) is impossible


@pytest.mark.parametrize(("careless", "unclean"), [(True, False), (False, True)])
def test_drawn_reassignments_do_lose_by_a_wrong_rule_or_an_unclean_election(
    careless: bool, unclean: bool
) -> None:
    loses, _ = walks((3, 9, 1), elr=False, careless=careless, unclean=unclean)
    assert loses
