"""The constants of one search: configuration, schedule, and what follows from them.

Records: one acked record that every replica has (left out of the logs) represents all earlier
records. Then one or two records may be sent in each phase of the schedule: before the first fault,
and after each fault (`Model.phases`). Tests with more records give the same predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from ackproof_model.configuration import Configuration
from ackproof_model.effects import Configures, QuorumLost
from ackproof_model.prediction.fault_schedule import (
    AnyOf,
    Condition,
    ElrIs,
    FaultEvent,
    Injection,
    IsrIs,
    IsrSize,
    LeaderChanged,
    Progress,
    Timing,
    leaves,
)
from ackproof_model.prediction.state import FLYING, UNSENT, Client, Harm, Run, State, Timer
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import Broker, Controller, initial, members

#: `broker.heartbeat.interval.ms`: the greatest age of the last heartbeat when a broker dies.
HEARTBEAT_S = 2.0

#: `request.timeout.ms` of the Java client and of librdkafka.
REQUEST_TIMEOUT_S = 30.0

#: After this many times its time a timer has certainly fired (the ISR is checked every half
#: `replica.lag.time.max.ms`, sessions between heartbeats).
CERTAINLY = 1.5

#: This many retries or more count as unlimited.
UNLIMITED_RETRIES = 3


@dataclass(frozen=True)
class Model:
    """One configuration and schedule to search.

    start: controller and brokers before the first fault, with empty logs; None for a full ISR.

    Tests also search without `reduction` (see there) and `ordered`: then due faults may be healed
    later (`Pending.due_in`), and records are also sent while no leader is known.
    """

    configuration: Configuration
    schedule: tuple[Injection, ...]
    more_records: int = 0
    reduction: bool = True
    ordered: bool = True
    start: tuple[Controller, tuple[Broker, ...]] | None = None

    def reduces(self, state: State) -> bool:
        """Whether steps that cannot change the outcome are left out (see `reduction`).

        They are not while the healing of a fault depends on the ISR.
        """
        return self.reduction and not self._awaiting_isr & ~state.run.healed

    @cached_property
    def _awaiting_isr(self) -> int:
        """The faults whose healing depends on the ISR, as a bitmask."""
        return sum(
            1 << fault
            for fault, injection in enumerate(self.schedule)
            if any(map(self._depends_on_isr, injection.heal_when))
        )

    def _depends_on_isr(self, condition: Condition) -> bool:
        match condition:
            case IsrSize():
                return len({condition.allows(size) for size in range(self.replicas + 1)}) > 1
            case IsrIs() | ElrIs():
                return True
            case AnyOf(alternatives=alternatives):
                return any(map(self._depends_on_isr, alternatives))
        return False

    @cached_property
    def awaited_recoveries(self) -> tuple[tuple[int, int], ...]:
        """Each pair of faults of which the first is healed when the second has recovered."""
        return tuple(
            (fault, condition.fault)
            for fault, injection in enumerate(self.schedule)
            for condition in leaves(injection.heal_when)
            if isinstance(condition, FaultEvent) and condition.event == "recovered"
        )

    @cached_property
    def compares_leader(self) -> frozenset[int]:
        """The faults whose leader a condition compares with a later one.

        That is the fault's own condition to heal, or the next fault's to begin.
        """
        conditions = [one.heal_when for one in self.schedule]
        for fault, one in enumerate(self.schedule[1:]):
            conditions[fault] += one.when
        return frozenset(
            fault for fault, of_it in enumerate(conditions) if LeaderChanged() in leaves(of_it)
        )

    @cached_property
    def last_loss(self) -> int:
        """The number of faults up to the last one by which logs lose data."""
        return max((n + 1 for n, one in enumerate(self.schedule) if one.loses_data), default=0)

    @cached_property
    def counts_sent(self) -> bool:
        """Whether a condition counts sent records."""
        every = (one for fault in self.schedule for one in (*fault.when, *fault.heal_when))
        return any(isinstance(one, Progress) and one.outcome == "sent" for one in leaves(every))

    @cached_property
    def heals_by_progress(self) -> bool:
        """Whether a fault is healed after a number of acked or sent records."""
        heals = (one for fault in self.schedule for one in fault.heal_when)
        return any(isinstance(one, Progress) for one in leaves(heals))

    @cached_property
    def loses_quorum(self) -> bool:
        return any(QuorumLost() in injection.effects for injection in self.schedule)

    @cached_property
    def replicas(self) -> int:
        return self.configuration.replication_factor

    @cached_property
    def faults(self) -> int:
        return len(self.schedule)

    @cached_property
    def acks(self) -> str:
        return self.configuration.acks

    @cached_property
    def policy(self) -> Policy:
        """The policy before any setting changes; `policy_in` is that of a state."""
        configuration = self.configuration
        return Policy(
            replicas=self.replicas,
            min_insync_replicas=configuration.min_insync_replicas,
            acks=configuration.acks,
            unclean_election=configuration.unclean_election,
            elr=configuration.profile.elr,
            profile=configuration.profile,
        )

    def policy_in(self, state: State) -> Policy:
        """Return the policy with the settings that faults in force have changed."""
        settings = state.harm.settings
        return self._policies[settings] if settings else self.policy

    @cached_property
    def _policies(self) -> _Policies:
        return _Policies(self)

    @cached_property
    def timing(self) -> Timing:
        return Timing(self.schedule)

    @cached_property
    def phases(self) -> tuple[int, ...]:
        """The phase in which each record may be sent."""
        every = list(range(self.faults + 1)) * (1 + self.more_records)
        two = [n for n, injection in enumerate(self.schedule) if _needs_two(n, injection)]
        return tuple(sorted([*every, *two, self.faults]))

    @cached_property
    def records(self) -> int:
        return len(self.phases)

    @cached_property
    def sent_before(self) -> tuple[int, ...]:
        """How many records may be sent before each phase."""
        return tuple(sum(one < phase for one in self.phases) for phase in range(self.faults + 1))

    @cached_property
    def appended(self) -> int:
        """The record status APPENDED at broker 0."""
        return FLYING + self.replicas

    @cached_property
    def limited_retries(self) -> bool:
        return self.configuration.retries < UNLIMITED_RETRIES

    @cached_property
    def first_leader(self) -> int:
        return self.initial().controller.leader

    def initial(self) -> State:
        """Return the state before the first fault."""
        controller, brokers = self.start or initial(self.replicas)
        retries = self.configuration.retries if self.limited_retries else 0
        return State(
            controller,
            brokers,
            Client(controller.leader, (UNSENT,) * self.records, (retries,) * self.records),
            Run(0, 0, 0, False, (), ()),
            self.unharmed,
        )

    @cached_property
    def unharmed(self) -> Harm:
        """The harm without any fault in force."""
        return Harm((0,) * self.replicas, (0,) * self.replicas)

    def _times(self, kind: str) -> tuple[float, float]:
        """Return the seconds after which a timer may fire, and must have fired."""
        configuration = self.configuration
        if kind == "session":
            session = configuration.session_s
            # Controllers that were without a majority give every broker a new session.
            most = math.inf if self.loses_quorum else session * CERTAINLY
            # A ZooKeeper client pings at a third of its session timeout.
            late = session / 3 if configuration.profile.zookeeper else HEARTBEAT_S
            return session - late, most
        if kind == "lag":
            lag = configuration.lag_time_s
            return lag, lag * CERTAINLY
        if kind == "request":
            return REQUEST_TIMEOUT_S, math.inf
        return 0.0, math.inf

    def ended(self, state: State) -> bool:
        """Whether every fault that will ever begin is verified and healed."""
        run = state.run
        done = run.over or run.phase == self.faults
        return done and run.healed == (1 << run.injected) - 1

    def may_have_fired(self, timer: Timer, state: State, *, unhealed: bool = True) -> bool:
        """Whether enough time may have passed for a timer, by the schedule's own bounds.

        Time is unbounded after the schedule has ended, or if a condition never holds.
        """
        kind, faults = timer
        if state.run.over or self.ended(state):
            return bool(faults)
        seconds, _ = self._times(kind)
        return any(
            self.timing.at_most(fault, state.run.phase, unhealed=unhealed) >= seconds
            for fault in faults
        )

    def must_have_fired(self, timer: Timer, reference: int, seconds: float) -> bool:
        """Whether a timer has certainly fired `seconds` after fault `reference` was verified."""
        kind, faults = timer
        _, certainly = self._times(kind)
        return bool(faults) and self.timing.at_least(max(faults), reference, seconds) >= certainly


def _needs_two(fault: int, injection: Injection) -> bool:
    """Whether two records must be sent before a fault.

    They can overtake each other during a controlled shutdown. If the fault waits for an acked
    record, a second record can be in flight when the fault begins.
    """
    waits = any(
        isinstance(one, Progress) and one.more and one.outcome == "acked" for one in injection.when
    )
    return injection.shuts_down or (fault > 0 and waits)


class _Policies(dict[int, Policy]):
    """The policy by the faults in force that changed settings, as a bitmask."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model

    def __missing__(self, faults: int) -> Policy:
        policy = self._model.policy
        for fault in members(faults):
            for effect in self._model.schedule[fault].effects:
                if isinstance(effect, Configures):
                    policy = _with_settings(policy, effect)
        self[faults] = policy
        return policy


def _with_settings(policy: Policy, changes: Configures) -> Policy:
    least, unclean = changes.min_insync_replicas, changes.unclean_leader_election
    return replace(
        policy,
        min_insync_replicas=policy.min_insync_replicas if least is None else least,
        unclean_election=policy.unclean_election
        if unclean is None
        else policy.profile.elects_uncleanly(unclean),
    )
