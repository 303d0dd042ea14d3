"""Random histories of one replica, and what it shows after each step as text.

The replica is broker 0 of three. A step is an event of the controller or of another broker, or a
call of the replica's partition; both sides do it, and show the replica.
"""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType

from ackproof_model.configuration import Acks, Profile
from ackproof_model.replication import controller as controllers
from ackproof_model.replication import leader, log_truncation, replica
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import NOBODY, UP, Broker, Controller, entry, members

OWN, REPLICAS = 0, 3
EVERYONE = (1 << REPLICAS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """min.insync.replicas, and the steps."""

    min_isr: int
    steps: tuple[str, ...]


def random_case(rng: random.Random) -> Case:
    """Return a history in which broker 0 mostly leads."""
    steps = [] if rng.random() < 0.05 else ["learn"]
    while len(steps) < 2 or rng.random() < 0.93:
        steps += _random_steps(rng)
    return Case(min_isr=rng.choice((1, 2, 2, 3, 4)), steps=tuple(steps))


def _random_steps(rng: random.Random) -> list[str]:
    other = rng.choice((1, 2))
    kind = rng.choices(
        (
            "fetch",
            "append",
            "learn",
            "answer",
            "shrink",
            "ack",
            "elect",
            "member",
            "follow",
            "join",
        ),
        (12, 6, 3, 5, 3, 4, 2, 3, 1, 1),
    )[0]
    steps = [kind]
    match kind:
        case "fetch":
            newer = rng.choice((0,) * 18 + (-1, 1))
            steps = [f"fetch:{other}:{rng.choice((0, 1, 2, 3, 9, 9, 9))}:{newer}"]
        case "append":
            steps = [f"append:{rng.choice((-1, -1, 1))}"]
        case "answer":
            steps = [rng.choice(("answer", "answer", "commit"))]
        case "ack":
            steps = [f"ack:{rng.randrange(4)}"]
        case "elect":
            elected = rng.choice((0, 0, 0, 1, 2, NOBODY))
            isr = rng.randrange(8) | (1 << elected if elected != NOBODY else 0)
            steps = [f"elect:{elected}:{isr}", *["learn"] * (rng.random() < 0.8)]
        case "member":
            event = rng.choice(("fence", "stop", "alive", "alive", "restart"))
            own = event == "restart" and rng.random() < 0.2
            steps = [f"{event}:{OWN if own else other}", *["learn"] * (rng.random() < 0.5)]
        case "follow":
            change = rng.choice(("copy", f"cut:{rng.randrange(4)}"))
            steps = [f"elect:{other}:{EVERYONE}", "learn", change]
        case "join":
            steps = [f"fence:{other}", "learn", f"alive:{other}", f"fetch:{other}:9:0"]
            steps += [f"{rng.choice(('fence', 'stop', 'restart'))}:{other}"] * (rng.random() < 0.7)
            steps += ["append:-1"] * (rng.random() < 0.4)
            steps += [rng.choice(("answer", "commit"))]
            late = f"fetch:{rng.choice((1, 2))}:{rng.choice((0, 1, 9))}:0"
            steps += [late] * (rng.random() < 0.4)
    return steps


def line(case: Case) -> str:
    """Return the case as the oracle reads it."""
    return f"min_isr={case.min_isr} steps={','.join(case.steps)}"


def smaller(case: Case) -> list[Case]:
    """Return the cases that have one step less, or a smaller min.insync.replicas."""
    steps = case.steps
    found = [replace(case, steps=steps[:at] + steps[at + 1 :]) for at in range(len(steps))]
    if case.min_isr > 1:
        found.append(replace(case, min_isr=case.min_isr - 1))
    return [one for one in found if one.steps]


def ours(case: Case, version: tuple[int, ...], rules: ModuleType = replica) -> str:
    """Answer by the rules; `rules` takes the place of the module that it is, or is a mutant of."""
    policy = Policy(
        replicas=REPLICAS,
        min_insync_replicas=case.min_isr,
        acks="all",
        unclean_election=False,
        elr=False,
        profile=_profile(version),
        in_flight=True,
    )
    life = _Life(policy, _rules(rules))
    return ",".join(f"{life.take(step)}/{life.shown()}" for step in case.steps)


@lru_cache
def _profile(version: tuple[int, ...]) -> Profile:
    return Profile.of(".".join(map(str, version)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    replica: ModuleType
    leader: ModuleType
    log_truncation: ModuleType


@lru_cache(maxsize=2)
def _rules(module: ModuleType) -> _Rules:
    """Return the rules with a module in the place of the one that it is a mutant of."""
    name = module.__name__.removesuffix("_mutant")
    if name == replica.__name__:
        return _Rules(replica=module, leader=leader, log_truncation=log_truncation)
    linked = ModuleType(replica.__name__)
    exec(compile(inspect.getsource(replica), str(replica.__file__), "exec"), linked.__dict__)
    for known, value in vars(linked).items():
        if getattr(value, "__module__", "") == name:
            setattr(linked, known, getattr(module, known))
    return _Rules(
        replica=linked,
        leader=module if name == leader.__name__ else leader,
        log_truncation=module if name == log_truncation.__name__ else log_truncation,
    )


class _Life:
    """Broker 0 and the controller by our rules.

    The searches simplify three things, which are added here. kept: a broker that leads anew begins
    with the high watermark that it had as a follower; theirs is 0, which only delays acks. ends: a
    leader that misses that it was not in between keeps the log ends of all replicas; theirs forget
    those outside the ISR, which matters only if it misses a second time. `_fetch`: the follower may
    join before the high watermark moves, which it does only if the follower's log end has changed
    (`Partition.updateFollowerFetchState`); theirs moves first, which differs only after the
    controller has refused a new member for which the high watermark had waited.
    asked: a request has not been answered. restarted: brokers that have not fetched since.
    """

    def __init__(self, policy: Policy, rules: _Rules) -> None:
        self.policy = policy
        self.rules = rules
        self.controller = Controller(OWN, 0, EVERYONE, 0, NOBODY, 0, 0)
        self.broker = Broker(UP, False, (), NOBODY, 0)
        self.kept = 0
        self.ends: dict[int, int] = {}
        self.restarted = 0
        self.asked = False
        self.partition_epoch, self.known_epoch = 1, 0

    @property
    def leads(self) -> bool:
        leads: bool = self.rules.replica.leads(self.broker, OWN)
        return leads

    @property
    def high_watermark(self) -> int:
        return min(max(self.kept, self.broker.hw), len(self.broker.log))

    def shown(self) -> str:
        broker = self.broker
        if not self.leads:
            return f"follows:{len(broker.log)}:{self.high_watermark}"
        ends = [broker.remote[member] for member in members(broker.maximal & ~1)]
        known = (len(broker.log), self.high_watermark, broker.isr, broker.maximal, *ends)
        return f"leads:{':'.join(map(str, known))}"

    def take(self, step: str) -> str:
        kind, *words = step.split(":")
        step_of = getattr(self, f"_{kind}")
        answer: str = step_of(*map(int, words))
        return answer

    def _change(self, controller: Controller) -> None:
        before = self.controller
        changed = (before.leader, before.epoch, before.isr)
        self.partition_epoch += changed != (controller.leader, controller.epoch, controller.isr)
        self.controller = controllers.with_version(before, controller)

    def _elect(self, elected: int, isr: int) -> str:
        controller = self.controller
        inactive = controller.fenced | controller.stopping
        if elected != NOBODY and inactive >> elected & 1:
            elected = NOBODY
        isr &= ~(inactive | self.restarted)
        self._change(controller._replace(leader=elected, epoch=controller.epoch + 1, isr=isr))
        return ""

    def _fence(self, broker: int) -> str:
        without = self._without(broker)
        self._change(without._replace(fenced=without.fenced | 1 << broker))
        return ""

    def _stop(self, broker: int) -> str:
        without = self._without(broker)
        self._change(without._replace(stopping=without.stopping | 1 << broker))
        return ""

    def _without(self, broker: int) -> Controller:
        return self.controller._replace(isr=self.controller.isr & ~(1 << broker))

    def _alive(self, broker: int) -> str:
        controller, bit = self.controller, 1 << broker
        self.controller = controller._replace(
            fenced=controller.fenced & ~bit, stopping=controller.stopping & ~bit
        )
        return ""

    def _restart(self, broker: int) -> str:
        if broker == OWN:
            self.kept, self.asked, self.known_epoch = self.high_watermark, False, 0
            self.broker = self.rules.replica.ended(self.policy, self.broker)._replace(status=UP)
            self.ends = {}
            return ""
        self.restarted |= 1 << broker
        self._alive(broker)
        self._change(self._without(broker))
        if self.leads:
            self.broker = self.rules.replica.forget(self.policy, self.broker, broker)
        return ""

    def _learn(self) -> str:
        controller, broker, led = self.controller, self.broker, self.leads
        known, latest = (broker.leader, broker.epoch), (controller.leader, controller.epoch)
        if known == latest and not led:  # the model's followers know no partition epoch
            behind = self.known_epoch != self.partition_epoch
        else:
            behind = self.rules.replica.can_learn(self.policy, controller, broker, OWN)
        if not behind:
            return ""
        if not led or controller.leader != OWN:
            self.kept = self.high_watermark
        self.broker = self.rules.replica.learn(self.policy, controller, broker, OWN)
        self._up_to_date()
        if led and self.leads:
            self._remember_ends(broker.remote)
        else:
            self.ends = {}
        if controller.leader == OWN:
            return "same" if led else "anew"
        anew = self.rules.log_truncation.refollows(self.policy.profile, known, latest)
        return "anew" if anew else "same"

    def _up_to_date(self) -> None:
        self.controller = self.controller._replace(version=0)
        self.known_epoch, self.asked = self.partition_epoch, False

    def _remember_ends(self, before: tuple[int, ...]) -> None:
        """Restore the log ends that were forgotten before the last metadata arrived."""
        broker = self.broker
        remote = tuple(
            self.ends.get(r, end) if before[r] == NOBODY and broker.isr >> r & 1 else end
            for r, end in enumerate(broker.remote)
        )
        if remote != broker.remote:
            known = broker._replace(remote=remote)
            self.broker = self.rules.replica.advance_high_watermark(self.policy, known, OWN)

    def _append(self, acks: int) -> str:
        wanted: Acks = "all" if acks == -1 else "1"
        policy = replace(self.policy, acks=wanted)
        if not self.rules.replica.can_append(policy, self.broker, OWN):
            return "NOT_ENOUGH_REPLICAS" if self.leads else "NOT_LEADER_OR_FOLLOWER"
        self.broker = self.rules.replica.append(policy, self.broker, OWN, 0)
        return "appended"

    def _copy(self) -> str:
        if not self.leads:
            log = (*self.broker.log, entry(self.controller.epoch, 0))
            self.broker = self.broker._replace(log=log)
        return ""

    def _cut(self, end: int) -> str:
        if not self.leads:
            self.broker = self.broker._replace(log=self.broker.log[:end])
            self.kept = self.high_watermark
        return ""

    def _fetch(self, follower: int, offset: int, newer: int) -> str:
        rules, log = self.rules.replica, self.broker.log
        fetching = Broker(UP, False, log[:offset], OWN, self.broker.epoch + newer)
        if not rules.can_fetch(self.policy, fetching, follower, self.broker, OWN):
            return "refused"
        before, known_end = self.broker, self.ends.get(follower)
        done = rules.fetch(self.policy, fetching, follower, before, OWN)
        if done is not None:
            self.broker = done[2]._replace(hw=before.hw, start=before.start)
        self.ends[follower] = len(fetching.log)
        self.restarted &= ~(1 << follower)
        if follower in rules.joinable(self.policy, self.controller, self.broker, OWN):
            self._ask(self.broker.isr | 1 << follower)
        if known_end != len(fetching.log):
            self.broker = rules.advance_high_watermark(self.policy, self.broker, OWN)
        return "fetched"

    def _ask(self, isr: int) -> None:
        requests = self.rules.replica.request_isr(
            self.policy, self.controller, self.broker, OWN, isr
        )
        for self.controller, self.broker in requests:
            self.asked = True

    def _shrink(self) -> str:
        broker = self.broker
        followers = members(broker.isr & ~(1 << OWN)) if broker.remote else []
        late = sum(1 << r for r in followers if broker.remote[r] != len(broker.log))
        if self.rules.replica.can_shrink(broker, OWN, late):
            self._ask(broker.isr & ~late)
        return ""

    def _ack(self, offset: int) -> str:
        known = self.broker._replace(hw=self.high_watermark)
        if self.rules.replica.can_ack(self.policy, known, OWN, offset):
            return "true:NONE"
        if not self.leads:
            return "false:NOT_LEADER_OR_FOLLOWER"
        passed = self.rules.leader.committed(offset, known.hw)
        return "true:NOT_ENOUGH_REPLICAS_AFTER_APPEND" if passed else "false:NONE"

    def _answer(self) -> str:
        return self._answered(arrives=True)

    def _commit(self) -> str:
        return self._answered(arrives=False)

    def _answered(self, *, arrives: bool) -> str:
        if not self.asked:
            return ""
        rules = self.rules.replica
        answer = rules.answer_isr(self.policy, self.controller, self.broker, OWN)
        if answer is None:
            self.asked = False
            return "stale"
        what, controller, broker = answer
        if what == "refuse":
            if not arrives:
                return ""
            self.asked, self.broker = False, broker
            return "refused"
        self.asked, self.controller = False, controller
        self.partition_epoch += 1
        if arrives:
            self.broker = rules.learn(self.policy, controller, broker, OWN)
            self._up_to_date()
        return "applied"
