"""Each step that a search takes meets the weakest condition of its action; the adversary has it.

The steps of four searches are recorded: of `predict` over schedules, of the adversary, of an
operator's plan, and of advice in an outage. The conditions are those of `replication` (`can_…`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

import pytest

from ackproof_model import (
    Configuration,
    Configures,
    Cuts,
    Effect,
    Elects,
    Injection,
    Profile,
    QuorumLost,
    Stalls,
)
from ackproof_model.adversary import moves as adversary_moves
from ackproof_model.adversary import successors as adversary_successors
from ackproof_model.adversary.state import AdversaryModel, Budgets, Writes, initial
from ackproof_model.adversary.state import State as AdversaryState
from ackproof_model.adversary.successors import successors
from ackproof_model.advice.outcome import _searched
from ackproof_model.advice.steps import Start, Stop
from ackproof_model.breadth_first import reachable
from ackproof_model.planning import Operation, OperationKind, plan_state
from ackproof_model.prediction import transitions
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.search import explore
from ackproof_model.prediction.state import State
from ackproof_model.replication import controller as controllers
from ackproof_model.replication import replica as replicas
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import (
    DOWN,
    NOBODY,
    STARTING,
    STOPPING,
    UP,
    Broker,
    Controller,
    Label,
    record_of,
)
from specifications.wrong_rules import always, replace_rule
from unit.reference_model.schedules import (
    ALL,
    CUT,
    FOLLOWERS,
    KILL,
    LEADER,
    LONG_CUT,
    POWER_LOSS,
    SHUTDOWN,
    ZOMBIE,
    kill,
)

#: Every perturbation of a partition that never moves.
UNMOVED = tuple(kind for kind in Budgets.KINDS if kind != "reassignments")
VERSIONS = ("4.3.1", "3.9.1", "2.8.2", "2.6.2", "2.3.1", "0.10.2.2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a search, with the partition before and after it."""

    policy: Policy
    label: Label
    controller: Controller
    brokers: tuple[Broker, ...]
    after: tuple[Controller, tuple[Broker, ...]]

    @property
    def what(self) -> str:
        return str(self.label[0]).partition(":")[0]


def legal(step: Step) -> bool:
    """Whether the weakest condition of the step's action holds before it."""
    if step.what in ENDS:  # a fault ends several
        return all(replicas.can_end(step.brokers[number]) for number in _ended(step))
    condition = CONDITIONS.get(step.what)
    if condition is None:  # a step of clients or of the schedule
        return step.after == (step.controller, step.brokers) or step.what in OF_SCHEDULE
    _, number, *others = step.label
    return condition(step, step.brokers[number], number, *others)


def _acks(step: Step, broker: Broker, number: int, record: int) -> bool:
    offsets = [offset for offset, one in enumerate(broker.log) if record_of(one) == record]
    return any(replicas.can_ack(step.policy, broker, number, offset) for offset in offsets)


def _appends(step: Step, broker: Broker, number: int, _: int) -> bool:
    unchanged = step.after[1] == step.brokers  # a request that is handled or given up
    return unchanged or replicas.can_append(step.policy, broker, number)


def _fetches(step: Step, broker: Broker, number: int, source: int) -> bool:
    return replicas.can_fetch(step.policy, broker, number, step.brokers[source], source)


def _enrols(step: Step, broker: Broker, number: int) -> bool:
    return controllers.can_enrol(step.controller, broker, number)


def _kills(step: Step, broker: Broker, *_: int) -> bool:
    return replicas.can_end(broker)


def _fences(step: Step, _: Broker, number: int) -> bool:
    return controllers.can_fence(step.controller, number)


def _answers(step: Step, broker: Broker, number: int) -> bool:
    return replicas.can_answer_isr(step.policy, step.controller, broker, number)


#: The condition of each kind of step, of the step, its broker and the numbers of its label.
CONDITIONS: dict[str, Callable[..., bool]] = {
    "learn": lambda step, broker, number: replicas.can_learn(
        step.policy, step.controller, broker, number
    ),
    "fetch": _fetches,
    "truncate": _fetches,
    "write": _appends,
    "append": _appends,
    "abandon": _appends,
    "ack": _acks,
    "shrink": lambda step, broker, number, late: replicas.can_shrink(broker, number, late),
    "expand": lambda step, broker, number, joiner: (
        joiner in replicas.joinable(step.policy, step.controller, broker, number)
    ),
    "apply": _answers,
    "refuse": _answers,
    "kill": _kills,
    "lose power": _kills,
    "stop": lambda step, broker, number: controllers.can_begin_shutdown(broker),
    "exit": lambda step, broker, number: controllers.can_exit(
        step.policy, step.controller, broker, number
    ),
    "fence": _fences,
    "cut off": _fences,
    "expire": lambda step, broker, number: controllers.can_expire(
        step.policy, step.controller, number
    ),
    "offline": lambda step, broker, number: controllers.can_offline(
        step.policy, step.controller, number
    ),
    "restart": _enrols,
    "rejoin": _enrols,
    "unfence": lambda step, broker, number: controllers.can_unfence(
        step.controller, broker, number
    ),
    "move leader": lambda step, broker, number: controllers.can_move_leader(
        step.controller, number
    ),
    "reassign": lambda step, broker, *target: controllers.can_reassign(
        step.policy, step.controller, target
    ),
    "cancel": lambda step, broker, _: controllers.can_cancel(step.policy, step.controller),
    "delete": lambda step, broker, number: replicas.can_delete(step.controller, broker, number),
}
#: Steps by which processes end, whichever.
ENDS = {"refused", "inject"}
#: Steps of a schedule. Healing starts processes; `sweep` and elections are `change`, at any time.
OF_SCHEDULE = {"heal", "end", "give up", "sweep"}


def _ended(step: Step) -> list[int]:
    pairs = enumerate(zip(step.brokers, step.after[1], strict=True))
    return [number for number, (was, now) in pairs if was.alive and not now.alive]


def of_prediction(
    configuration: Configuration, schedule: Sequence[Injection], states: int
) -> Iterator[Step]:
    model = Model(configuration, tuple(schedule), reduction=False)
    found = explore(model, max_states=states)
    for index, (before, label) in enumerate(found.parents):
        if before >= 0:
            was, now = found.state(before), found.state(index)
            yield Step(
                policy=model.policy_in(was),
                label=label,
                controller=was.controller,
                brokers=was.brokers,
                after=(now.controller, now.brokers),
            )


def of_adversary(model: AdversaryModel, states: int) -> Iterator[Step]:
    for one in islice(reachable(initial(model), lambda state: successors(model, state)), states):
        for label, after in successors(model, one.state):
            yield _of_adversary(model, one.state, label, after)


def _of_adversary(
    model: AdversaryModel, state: AdversaryState, label: Label, after: AdversaryState
) -> Step:
    if label[0] == "shrink":  # as a set of followers
        label = (label[0], label[1], 1 << label[2])
    return Step(
        policy=model.policy,
        label=label,
        controller=state.controller,
        brokers=state.brokers,
        after=(after.controller, after.brokers),
    )


def of_plan(
    model: AdversaryModel, operations: Iterable[Operation]
) -> Iterator[tuple[Step, AdversaryState, AdversaryState]]:
    """Yield each step of an operator's plan, with the states before and after it."""
    now = plan_state.initial_plan_state(model)
    wrote = plan_state.produce(model, now)
    assert wrote is not None
    for operation in operations:
        done = plan_state.performed(model, now, operation)
        if done is None:
            continue
        now = done
        for label, after in plan_state.settle(model, now, timers=operation.settled):
            yield _of_adversary(model, now.state, label, after.state), now.state, after.state
            now = after


K = OperationKind
PLANS = (
    [Operation(kind=K.LAG, broker=1), Operation(kind=K.KILL, broker=0)],
    [
        Operation(kind=K.CUT_OFF, broker=0),
        Operation(kind=K.JOIN, broker=0, ends=K.CUT_OFF),
        Operation(kind=K.STOP, broker=1),
        Operation(kind=K.START, broker=1),
    ],
    [
        Operation(kind=K.KILL, broker=0),
        Operation(kind=K.LOSE_POWER, broker=1),
        Operation(kind=K.START, broker=0),
        Operation(kind=K.START, broker=1),
    ],
    [Operation(kind=K.WITHHOLD, broker=0), Operation(kind=K.STOP, broker=0, settled=False)],
)


def fault(*effects: Effect, **settings: object) -> Injection:
    return Injection(fault="fault", effects=effects, **{"targets": LEADER, **settings})


#: Small schedules that have every kind of step of `transitions`.
SCHEDULES: dict[str, tuple[Injection, ...]] = {
    "kill": (kill(),),
    "kill all": (kill(ALL), kill(FOLLOWERS)),
    "power loss": (fault(POWER_LOSS, heal_or_after=20.0),),
    "cut": (CUT, kill()),
    "long cut": LONG_CUT,
    "cut off": ZOMBIE,
    "stall": (fault(Stalls(), heal_or_after=60.0),),
    "shutdown": (fault(SHUTDOWN, targets=ALL),),
    "shutdown without controllers": (
        fault(Cuts(channels=("controllers",))),
        fault(SHUTDOWN, heal_or_after=20.0),
    ),
    "no quorum": (fault(QuorumLost(), targets=frozenset(), heal_or_after=60.0), kill()),
    "election": (
        kill(),
        fault(Elects(topic="orders", partition=0, unclean=False), targets=frozenset()),
    ),
    "unclean": (
        CUT,
        kill(heal_when=(), heal_or_after=None),
        fault(
            Configures(topic="orders", key="unclean.leader.election.enable", value="true"),
            targets=frozenset(),
        ),
    ),
}


def _configuration(version: str, acks: str, replicas: int = 2) -> Configuration:
    return Configuration(
        kafka_version=version,
        acks=acks,
        idempotence=False,
        retries=3,
        max_in_flight=2,
        replication_factor=replicas,
        min_insync_replicas=1,
        brokers=replicas,
    )


@cache
def recorded(version: str, acks: str) -> tuple[Step, ...]:
    """Return the steps of `predict` over all schedules."""
    configuration = _configuration(version, acks)
    return tuple(
        step
        for schedule in SCHEDULES.values()
        for step in of_prediction(configuration, schedule, states=1000)
    )


def adversary(version: str, acks: str = "all", **changes: object) -> AdversaryModel:
    everything = Budgets(
        records=2,
        **dict.fromkeys(UNMOVED, 2),
        in_all=3,
    )
    given = AdversaryModel(
        kafka_version=version,
        acks=acks,
        replicas=2,
        min_insync_replicas=1,
        unclean_election=False,
        budgets=everything,
        reduction=False,
    )
    return replace(given, **changes)


@pytest.mark.parametrize("version", VERSIONS)
def test_steps_of_predictions_meet_the_conditions_of_their_actions(version):
    steps = recorded(version, "all") + recorded(version, "1")
    assert [step for step in steps if not legal(step)] == []
    taken = {step.what for step in steps}
    expected = {"learn", "fetch", "shrink", "expand", "exit", "fence", "rejoin"}
    assert expected | {"unfence", "append", "ack", "inject", "heal"} <= taken


@pytest.mark.parametrize("version", VERSIONS)
def test_steps_of_the_adversary_meet_the_conditions_of_their_actions(version):
    steps = list(of_adversary(adversary(version), 400))
    assert [step for step in steps if not legal(step)] == []
    assert {"write", "ack", "kill", "stop", "shrink", "cut off", "fence"} <= {
        step.what for step in steps
    }


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_steps_of_moves_meet_the_conditions_of_their_actions(version):
    moving = Budgets(reassignments=2, kills=1, in_all=2)
    steps = list(of_adversary(adversary(version, budgets=moving, spare_brokers=1), 4000))
    assert [step for step in steps if not legal(step)] == []
    assert {"reassign", "cancel", "delete"} <= {step.what for step in steps}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("plan", PLANS)
def test_steps_of_plans_are_steps_of_the_adversary(version, plan):
    model = adversary(version)
    for step, before, after in of_plan(model, plan):
        assert legal(step), step
        left = model.budgets.left
        free = {one for _, one in successors(model, before._replace(left=left))}
        assert after._replace(left=left) in {one._replace(left=left) for one in free}, step


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The steps that `advice` takes: those of brokers, and those of an operator."""
    steps: list[Step] = []

    def recording(
        model: AdversaryModel, state: AdversaryState
    ) -> list[tuple[Label, AdversaryState]]:
        found = list(successors(model, state))
        steps.extend(_of_adversary(model, state, label, after) for label, after in found)
        return found

    monkeypatch.setattr(sys.modules[_searched.__module__], "successors", recording)
    return steps


def test_steps_of_advice_meet_the_conditions_of_their_actions(advised):
    start = initial(adversary("4.3.1"))
    down = Broker(DOWN, False, (), NOBODY, 0)
    model = adversary(
        "4.3.1", start=start._replace(brokers=(start.brokers[0], down)), budgets=Budgets()
    )
    found = _searched(model, (Start((1,)), Stop(0)), at_any_time=False)
    assert found.complete
    assert advised
    assert [step for step in advised if not legal(step)] == []


#: By kind of a prediction's step: the adversary's steps that together are the same, and how many.
#: An AlterPartition is one step of a prediction, and a broker that has ended begins the next stop.
SAME = {
    "learn": ({"learn"}, 1),
    "fetch": ({"fetch"}, 1),
    "truncate": ({"truncate"}, 1),
    "append": ({"write"}, 1),
    "abandon": ({"write"}, 1),
    "ack": ({"ack"}, 1),
    "shrink": ({"shrink", "apply"}, 2),
    "expand": ({"expand", "apply"}, 2),
    "exit": ({"exit", "stop"}, 2),
    "refused": ({"kill", "stop"}, 2),
    "fence": ({"fence", "cut off"}, 1),
    "expire": ({"expire"}, 1),
    "rejoin": ({"restart", "unfence"}, 2),
    "unfence": ({"unfence"}, 1),
    "inject": ({"kill", "lose power", "stop", "move leader"}, 2),
}


#: Why the adversary lacks some steps of predictions.
HEALS = "healing starts processes, which then register"
SETTINGS = "a setting changes, which the adversary has from the start"
STEPWISE = "the adversary fences a dead broker and takes it out of the ISR in one step"
UNHARMED = "changes no broker yet"
FENCED = "a fenced broker stops, which deposes no leader"
ALONE = "a broker stops without reaching the controllers, which ends in a SIGKILL"


def beyond(step: Step) -> str:
    """Return why the adversary lacks a prediction's step; '' if it has to have it."""
    controller, brokers = step.after
    stopped = [n for n, one in enumerate(brokers) if one.status == STOPPING]
    began = [n for n in stopped if step.brokers[n].status != STOPPING]
    reasons = {
        HEALS: step.what in {"heal", "end", "give up"},
        SETTINGS: step.what == "sweep",
        STEPWISE: step.what == "offline"
        or (step.what == "expire" and not step.policy.profile.failover_keeps_isr),
        UNHARMED: (step.controller, step.brokers) == step.after and step.what != "ack",
        FENCED: any(step.controller.fenced >> n & 1 for n in began),
        ALONE: any(not controller.stopping >> n & 1 for n in began),
    }
    return next((why for why, holds in reasons.items() if holds), "")


def translated(step: Step) -> tuple[AdversaryModel, AdversaryState]:
    """Return the adversary, with every budget, in the state before a prediction's step."""
    policy, controller = step.policy, step.controller
    model = AdversaryModel(
        kafka_version=VERSION_OF[policy.profile],
        acks=policy.acks,
        min_insync_replicas=policy.min_insync_replicas,
        replicas=policy.replicas,
        unclean_election=policy.unclean_election,
        elr_enabled=policy.elr,
        budgets=Budgets(records=7, **dict.fromkeys(UNMOVED, 7), in_all=7),
        reduction=False,
    )
    leading = step.brokers[controller.leader] if controller.leader != NOBODY else None
    outdated = leading is not None and leading.isr != controller.isr
    record = step.label[2] if step.what in {"append", "abandon"} else 0
    brokers = (one if one.alive else one._replace(status=DOWN) for one in step.brokers)
    return model, AdversaryState(
        controller._replace(version=int(outdated)),
        tuple(brokers),
        Writes(record, 0),
        model.budgets.left,
    )


def compared(
    model: AdversaryModel, controller: Controller, brokers: Iterable[Broker]
) -> tuple[object, ...]:
    """Return what both searches have alike; every broker has learned what it may learn."""
    learned = [
        replicas.learn(model.policy, controller, one, number)
        if replicas.can_learn(replace(model.policy, in_flight=False), controller, one, number)
        else one
        for number, one in enumerate(brokers)
    ]
    return (
        controller._replace(version=0),
        *(
            one._replace(status=one.status >= UP, version=0, pending=0, clean=False)
            for one in learned
        ),
    )


def has(model: AdversaryModel, state: AdversaryState, step: Step) -> bool:
    """Whether the adversary's steps reach the state after a prediction's step."""
    kinds, most = SAME[step.what]
    wanted = compared(model, *step.after)
    frontier = {state}
    for _ in range(most):
        frontier = {
            after._replace(left=state.left)
            for one in frontier
            for label, after in successors(model, one)
            if label[0] in kinds
        }
        if any(compared(model, one.controller, one.brokers) == wanted for one in frontier):
            return True
    return False


VERSION_OF = {Profile.of(version): version for version in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_steps_of_predictions_are_steps_of_the_adversary(version):
    steps = [step for step in dict.fromkeys(recorded(version, "all")) if step.what in SAME]
    missing = [step for step in steps if not beyond(step) and not has(*translated(step), step)]
    assert missing == []


def test_each_reason_why_the_adversary_lacks_a_step_is_needed():
    reasons = {beyond(step) for version in VERSIONS for step in recorded(version, "all")}
    assert reasons >= {"", HEALS, STEPWISE, UNHARMED, ALONE}


@pytest.mark.parametrize(
    "condition",
    [
        *(replicas.can_ack, replicas.can_answer_isr, replicas.can_append, replicas.can_end),
        *(replicas.can_learn, replicas.can_shrink),
        *(controllers.can_begin_shutdown, controllers.can_enrol, controllers.can_exit),
        *(controllers.can_expire, controllers.can_fence, controllers.can_move_leader),
        controllers.can_unfence,
    ],
)
def test_a_search_that_ignores_a_condition_is_noticed(condition, monkeypatch):
    version = "2.3.1" if condition is controllers.can_expire else "4.3.1"
    with monkeypatch.context() as patch:
        replace_rule(patch, condition, always)
        steps = list(of_adversary(adversary(version), 400))
    assert not all(map(legal, steps))


def _cluster(version: str = "4.3.1", *effects: Effect) -> tuple[Model, State]:
    """Return two replicas after the end of a schedule in which a fault was not healed."""
    model = Model(_configuration(version, "all"), (fault(*effects),), reduction=False)
    state = model.initial()
    run = state.run._replace(injected=1, phase=1, over=True, targets=(B,), leaders=(0,))
    return model, state._replace(run=run)


A, B = 1, 2


def _changed(
    state: State,
    *brokers: dict[str, object],
    harm: dict[str, object] | None = None,
    **parts: object,
) -> State:
    changed = zip(state.brokers, brokers or ({}, {}), strict=True)
    return state._replace(
        controller=state.controller._replace(**parts),
        brokers=tuple(one._replace(**change) for one, change in changed),
        harm=state.harm._replace(**(harm or {})),
    )


def _taken(model: Model, state: State) -> set[object]:
    steps = {label[0] for label, *_ in transitions.cluster_moves(model, state) if label}
    exits = {
        label[0]
        for number, one in enumerate(state.brokers)
        if one.status == STOPPING
        for label, *_ in transitions.exits(model, state, number)
    }
    return steps - {"exit"} | exits


DEAD: dict[str, object] = {"status": DOWN, "leader": NOBODY}
AHEAD: dict[str, object] = {"log": (0,)}

#: By restriction of `prediction.transitions`: the action, the version, the effect that is in force,
#: a state in which the action is taken, and one in which it could be but is not.
RESTRICTIONS = {
    "metadata does not reach a broker": (
        *("learn", "4.3.1", Stalls()),
        (({}, {}), {"epoch": 1}, {"away": A}),
        (({}, {}), {"epoch": 1}, {"away": A | B}),
    ),
    "a fetch is lost": (
        *("fetch", "4.3.1", Stalls()),
        ((AHEAD, {}), {}, {}),
        ((AHEAD, {}), {}, {"cuts": (B, 0)}),
    ),
    "a follower that fetches does not lag": (
        *("shrink", "4.3.1", Stalls()),
        ((AHEAD, {}), {}, {"stalled": B}),
        ((AHEAD, {}), {}, {}),
    ),
    "a follower that has every record does not lag": (
        *("shrink", "4.3.1", Stalls()),
        ((AHEAD, {}), {}, {"stalled": B}),
        (({}, {}), {}, {"stalled": B}),
    ),
    "a request does not reach the controllers": (
        *("shrink", "4.3.1", Stalls()),
        ((AHEAD, {}), {}, {"stalled": B}),
        ((AHEAD, {}), {}, {"stalled": B, "away": A}),
    ),
    "an outdated request has no effect": (
        *("shrink", "4.3.1", Stalls()),
        ((AHEAD, {}), {}, {"stalled": B}),
        ((AHEAD, {}), {"isr": A}, {"stalled": B}),
    ),
    "a follower joins by its fetch": (
        *("expand", "4.3.1", Stalls()),
        (({"isr": A}, {}), {"isr": A}, {}),
        (({"isr": A}, {}), {"isr": A}, {"stalled": B}),
    ),
    "heartbeats arrive": (
        *("fence", "4.3.1", Stalls()),
        (({}, {}), {}, {"stalled": B}),
        (({}, {}), {}, {}),
    ),
    "controllers without a majority commit nothing": (
        *("fence", "4.3.1", Stalls()),
        (({}, {}), {}, {"stalled": B}),
        (({}, {}), {}, {"stalled": B, "quorum": False}),
    ),
    "a session that ends is noticed by the controller": (
        *("expire", "2.6.2", KILL),
        ((DEAD, DEAD), {}, {}),
        (({}, DEAD), {}, {}),
    ),
    "a failover needs a broker": (
        *("offline", "2.6.2", KILL),
        (({}, DEAD), {"fenced": B}, {}),
        ((DEAD, DEAD), {"fenced": B}, {}),
    ),
    "only healing starts a process": (
        *("rejoin", "4.3.1", KILL),
        (({}, {**DEAD, "status": STARTING}), {"fenced": B}, {}),
        (({}, DEAD), {"fenced": B}, {}),
    ),
    "a broker that is cut off does not return": (
        *("unfence", "4.3.1", Stalls()),
        (({}, {}), {"fenced": B}, {}),
        (({}, {}), {"fenced": B}, {"away": B}),
    ),
    "a fenced broker that wants to shut down ends": (
        *("unfence", "4.3.1", Stalls()),
        (({}, {}), {"fenced": B}, {}),
        (({}, {"status": STOPPING}), {"fenced": B}, {}),
    ),
    "the controllers wait until all brokers know": (
        *("exit", "4.3.1", SHUTDOWN),
        (({"isr": A}, {"status": STOPPING}), {"isr": A, "stopping": B}, {}),
        (({}, {"status": STOPPING}), {"isr": A, "stopping": B}, {}),
    ),
}
RESTRICTED_NUMBERS = {"learn": (1,), "fetch": (1, 0), "shrink": (0, B), "expand": (0, 1)}


@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_a_restriction_of_predictions_forbids_a_step_that_is_legal(restriction):
    action, version, effect, taken, forbidden = RESTRICTIONS[restriction]
    model, state = _cluster(version, effect)
    free, bound = (
        _changed(state, *brokers, harm=harm, **parts) for brokers, parts, harm in (taken, forbidden)
    )
    assert action in _taken(model, free)
    assert action not in _taken(model, bound)
    step = Step(
        policy=model.policy,
        label=(action, *RESTRICTED_NUMBERS.get(action, (1,))),
        controller=bound.controller,
        brokers=bound.brokers,
        after=(bound.controller, bound.brokers),
    )
    assert legal(step)


def test_restrictions_of_the_adversary_forbid_steps_that_are_legal():
    def moved(model: AdversaryModel, controller: Controller, broker: Broker) -> set[object]:
        return {label[0] for label, *_ in adversary_moves.moves(model, controller, broker, 1)}

    new, old = adversary("4.3.1"), adversary("2.6.2")
    controller, (leader, follower) = initial(new)[:2]
    dead = Broker(DOWN, False, (), NOBODY, 0)
    # A running broker's session ends by a perturbation only.
    assert controllers.can_fence(controller, 1)
    assert "fence" in moved(new, controller, dead)
    assert "fence" not in moved(new, controller, follower)
    # From 2.4 no step of its own takes dead brokers out of the ISR.
    assert controllers.can_expire(old.policy, controller, 1)
    assert "expire" in moved(adversary("2.3.1"), controller, dead)
    assert "expire" not in moved(old, controller, dead)
    # With the reduction no broker learns that there is no leader.
    leaderless = controller._replace(leader=NOBODY, epoch=1)
    assert "learn" in moved(new, leaderless, follower)
    assert "learn" not in moved(replace(new, reduction=True), leaderless, follower)
    # Requests of an earlier epoch were refused.
    led = leader._replace(epoch=2, log=(0,), hw=1)
    assert replicas.can_ack(new.policy, led, 0, 0)
    assert not any(
        label[0] == "ack" for label, *_ in adversary_moves.writes(new, led, 0, Writes(1, 0))
    )
    # The clean end of a fenced broker changes no leader.
    fenced = controller._replace(fenced=B)
    assert controllers.can_begin_shutdown(follower)
    assert list(adversary_successors.clean_stops(new, controller, follower, 1))
    assert not list(adversary_successors.clean_stops(new, fenced, follower, 1))


@pytest.mark.parametrize(
    ("action", "cut", "controller", "leader"),
    [
        ("learn", K.CUT_OFF, {"epoch": 1}, {"epoch": 1}),
        ("fetch", K.LAG, {}, AHEAD),
        ("expand", K.LAG, {"isr": A}, {"isr": A}),
    ],
)
def test_restrictions_of_plans_forbid_steps_that_are_legal(action, cut, controller, leader):
    model = adversary("4.3.1")
    start = initial(model)
    start = start._replace(
        controller=start.controller._replace(**controller),
        brokers=(start.brokers[0]._replace(**leader), start.brokers[1]),
    )
    free = plan_state.initial_plan_state(replace(model, start=start))
    cut_off = replace(free, in_force=(Operation(kind=cut, broker=1),))

    def first(now: plan_state.PlanState) -> set[object]:
        return {label[0] for label, _ in plan_state.settle(model, now, timers=False)}

    assert action in first(free)
    assert action not in first(cut_off)
    number = RESTRICTED_NUMBERS[action]
    step = Step(
        policy=model.policy,
        label=(action, *number),
        controller=start.controller,
        brokers=start.brokers,
        after=(start.controller, start.brokers),
    )
    assert legal(step)


def test_an_operator_neither_starts_nor_stops_a_broker_that_is_cut_off():
    model = adversary("4.3.1")
    start = initial(model)
    cut = (Operation(kind=K.CUT_OFF, broker=1),)
    running = replace(plan_state.initial_plan_state(model), in_force=cut)
    assert controllers.can_begin_shutdown(start.brokers[1])
    assert plan_state.performed(model, running, Operation(kind=K.STOP, broker=1)) is None
    killed = Operation(kind=K.KILL, broker=1)
    down = running.with_brokers(
        {1: Broker(DOWN, False, (), NOBODY, 0)}, start.controller._replace(fenced=B)
    )
    assert controllers.can_enrol(down.state.controller, down.state.brokers[1], 1)
    start_again = Operation(kind=K.START, broker=1)
    assert plan_state.performed(model, replace(down, in_force=(*cut, killed)), start_again) is None
    assert plan_state.performed(model, replace(down, in_force=(killed,)), start_again) is not None


def test_advice_starts_no_broker_that_no_step_starts(advised):
    start = initial(adversary("4.3.1"))
    fenced = start.controller._replace(fenced=B, isr=A)
    down = Broker(DOWN, False, (), NOBODY, 0)
    model = adversary(
        "4.3.1",
        start=start._replace(controller=fenced, brokers=(start.brokers[0], down)),
        budgets=Budgets(),
    )
    found = _searched(model, (), at_any_time=False)
    assert any(step.what == "restart" and legal(step) for step in advised)  # it is offered
    assert all(not step.controller.isr & B for step in advised)  # and not taken
    assert found.complete
