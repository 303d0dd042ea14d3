"""The steps of `transitions`, memoised by the parts of a state that they read.

A state is a pair of numbers: of its clients, and of its cluster, which is everything else (collapse
compression, as in SPIN). A search of 100,000 states has 1,000 to
30,000 clusters and 300 to 10,000 clients. A test compares this with the rules, run for each state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from ackproof_model.effects import Configures
from ackproof_model.prediction.consumer import readable_records, unremovable, with_reads
from ackproof_model.prediction.model import REQUEST_TIMEOUT_S, Model
from ackproof_model.prediction.producer import disconnect, step_down
from ackproof_model.prediction.reduction import (
    alone,
    awaits_heals_only,
    ends_small,
    has_final_leader,
    old_leaders,
    settled_records,
    without_past_records,
)
from ackproof_model.prediction.state import FLYING, Client, Harm, Run, State, Timer
from ackproof_model.prediction.transitions import (
    Move,
    cluster_moves,
    exits,
    producer_steps,
    requests,
)
from ackproof_model.replication.state import NOBODY, Broker, Controller, Label, members, record_of

#: Steps of brokers and controllers that wait for no timer and may change who leads or is in sync.
PROMPT = {"learn", "fetch", "truncate", "expand", "catch up", "rejoin", "unfence", "exit"}

#: A state: the numbers of its cluster and of its clients.
Pair = tuple[int, int]

#: A step: its label, the number of the state that it leads to, and the timer that it waits for.
NumberedStep = tuple[Label, int, Timer | None]

_Parts = tuple[Controller, tuple[Broker, ...], Run, Harm]


@dataclass(slots=True)
class _Cluster:
    """A value of the cluster, and the parts that clients' steps and reductions read.

    moves: its steps, computed when first needed.
    timers: those that the moves wait for.
    prompt: whether some of them wait for no timer.
    waits: nothing matters before the faults are healed (`reduction.awaits_heals_only`).
    producer: the phase and the leader that the producer can reach.
    requests: for each broker, the parts that requests at it read.
    reading: the records that consumers read, those that need no mark, and how many records belong
        to earlier phases.
    leaders: the old leaders; None without a final leader.
    log: that of the final leader, where it is settled.
    in_logs: picks the statuses of records that some log holds.
    stored: the records in logs, where a record may be given up.
    """

    parts: _Parts
    moves: list[Move[int]] | None
    timers: list[Timer]
    prompt: bool
    waits: bool
    producer: tuple[int, int]
    requests: tuple[int, ...]
    reading: tuple[int, int, int]
    leaders: int | None
    log: tuple[int, ...] | None
    stored: frozenset[int] | None
    in_logs: itemgetter[tuple[int, ...]] | None
    # By clients: the number of the state with this cluster, of its reduced state once consumers
    # have read, and of its reduced state without reads.
    own: dict[int, int] = field(default_factory=dict)
    reduced: dict[int, int] = field(default_factory=dict)
    standing: dict[int, int] = field(default_factory=dict)
    # By brokers with requests that wait: see `ends_small`.
    small: dict[int, bool | None] = field(default_factory=dict)
    changed: dict[tuple[int, Broker], int] = field(default_factory=dict)
    lone: dict[tuple[object, ...], int] = field(default_factory=dict)


class Stepping:
    """The states of one search, and the steps from them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.pairs: list[Pair] = []  # by the number of the state
        self.taken: set[str] = set()  # the kinds of steps taken
        self._clusters: list[_Cluster] = []
        self._cluster_numbers: dict[_Parts, int] = {}
        self._clients: list[Client] = []
        self._client_numbers: dict[Client, int] = {}
        self._busy: list[tuple[int, int]] = []  # of clients: brokers that requests fly to, wait at
        self._views: dict[object, int] = {}
        self._producer: dict[tuple[int, tuple[int, int]], list[tuple[Label, int]]] = {}
        self._requests: dict[
            tuple[int, int, int], list[tuple[Label, Broker | None, int, Timer | None]]
        ] = {}
        self._without_past: dict[tuple[int, int], int] = {}
        self._disconnected: dict[tuple[int, int, frozenset[int] | None], int] = {}
        self._read: dict[tuple[int, tuple[int, int, int]], int] = {}
        self._settled: dict[tuple[tuple[int, ...], int], tuple[int, tuple[int, ...]]] = {}
        configuration = model.configuration
        self._gives_up = (
            model.limited_retries
            or configuration.delivery_timeout_s <= REQUEST_TIMEOUT_S
            or model.policy.min_isr > model.replicas
            or any(
                isinstance(effect, Configures)
                for fault in model.schedule
                for effect in fault.effects
            )
        )

    def state(self, number: int) -> State:
        return self._state(self.pairs[number])

    def _state(self, pair: Pair) -> State:
        cluster, client = pair
        controller, brokers, run, harm = self._clusters[cluster].parts
        return State(controller, brokers, self._clients[client], run, harm)

    def number(self, cluster: int, client: int) -> int:
        """Return the number of a state, in the order of discovery."""
        own = self._clusters[cluster].own
        known = own.get(client)
        if known is None:
            known = own[client] = len(self.pairs)
            self.pairs.append((cluster, client))
        return known

    def moving(self, number: int) -> bool:
        """Whether brokers or controllers take prompt steps from a state."""
        return self._clusters[self.pairs[number][0]].prompt

    def timers(self, number: int) -> list[Timer]:
        """Return the timers that brokers and controllers wait for in a state.

        Those of requests are left out: they need not fire (`Model.must_have_fired`).
        """
        return self._clusters[self.pairs[number][0]].timers

    def pair(self, state: State) -> Pair:
        return self.cluster(state), self._client(state.client)

    def standing_for(self, number: int, client: int) -> int:
        """Return the reduced state of a pair whose consumers have not read since the last step."""
        cluster = self._clusters[number]
        known = cluster.standing.get(client)
        if known is None:
            key = (client, cluster.reading[2])
            after = self._without_past.get(key)
            if after is None:
                reduced = without_past_records(self._model, self._clients[client], key[1])
                after = self._without_past[key] = self._client(reduced)
            known = cluster.standing[client] = self._settled_state(number, after)
        return known

    def disconnected(self, number: int, client: int, ended: int) -> int:
        """Return the clients after the processes of some brokers of a cluster ended."""
        key = (client, ended, self._clusters[number].stored)
        after = self._disconnected.get(key)
        if after is None:
            state = self._state((number, client))
            for broker in members(ended):
                state = disconnect(self._model, state, broker)
            after = self._disconnected[key] = self._client(state.client)
        return after

    def steps(self, state_number: int) -> list[NumberedStep]:
        """Return every step from a state, in the order of the rules."""
        number, client = pair = self.pairs[state_number]
        cluster = self._clusters[number]
        if cluster.waits:
            return []
        key = (client, cluster.producer)
        sends = self._producer.get(key)
        if sends is None:
            sends = self._producer[key] = self._producer_steps(pair)
        clusters, reduced, known = self._clusters, self._reduced, cluster.reduced
        steps: list[NumberedStep] = [
            (label, known[after] if after in known else reduced(number, after), None)
            for label, after in sends
        ]
        moves = cluster.moves
        if moves is None:
            moves = self._moves(pair)
        flying, waiting = self._busy[client]
        busy = flying | waiting
        for what, broker, there, timer in moves:
            if what is None:
                if busy >> broker & 1:
                    steps += self._served(number, broker, client)
            elif there is None:
                for label, state, _ in exits(self._model, self._state(pair), broker):
                    steps.append((label, reduced(*self.pair(state)), None))
            elif broker >= 0 and waiting >> broker & 1:
                state = step_down(self._model, self._state((there, client)), broker)
                steps.append((what, reduced(*self.pair(state)), timer))
            else:
                known = clusters[there].reduced
                after = known[client] if client in known else reduced(there, client)
                steps.append((what, after, timer))
        return steps

    def _served(self, number: int, broker: int, client: int) -> Iterator[NumberedStep]:
        """Yield the steps of the requests at a broker."""
        key = (broker, self._clusters[number].requests[broker], client)
        known = self._requests.get(key)
        if known is None:
            state = self._state((number, client))
            own = state.brokers[broker]
            known = self._requests[key] = [
                (
                    label,
                    None if after.brokers[broker] == own else after.brokers[broker],
                    self._client(after.client),
                    timer,
                )
                for label, after, timer in requests(self._model, state, broker)
            ]
            self.taken.update(label[0] for label, _, _, _ in known)
        for label, changed, there, timer in known:
            after = number if changed is None else self._changed(number, broker, changed)
            yield label, self._reduced(after, there), timer

    def _changed(self, number: int, broker: int, changed: Broker) -> int:
        known = self._clusters[number].changed.get((broker, changed))
        if known is None:
            state = self._state((number, 0)).with_broker(broker, changed)
            known = self._clusters[number].changed[broker, changed] = self.cluster(state)
        return known

    def _producer_steps(self, pair: Pair) -> list[tuple[Label, int]]:
        steps = list(producer_steps(self._model, self._state(pair)))
        self.taken.update(label[0] for label, _, _ in steps)
        return [(label, self._client(after.client)) for label, after, _ in steps]

    def _moves(self, pair: Pair) -> list[Move[int]]:
        state, cluster = self._state(pair), self._clusters[pair[0]]
        moves: list[Move[int]] = []
        kinds: set[str] = set()
        for label, broker, after, timer in cluster_moves(self._model, state):
            moves.append((label, broker, None if after is None else self.cluster(after), timer))
            if label is not None and after is None:
                kinds |= {ends[0] for ends, _, _ in exits(self._model, state, broker)}
            elif label is not None:
                kinds.add(label[0])
        cluster.moves = moves
        cluster.timers = [timer for _, _, _, timer in moves if timer is not None]
        cluster.prompt = not kinds.isdisjoint(PROMPT)
        self.taken |= kinds
        return moves

    def _reduced(self, number: int, client: int) -> int:
        """Return the reduced state of a pair after a step, once consumers have read."""
        cluster = self._clusters[number]
        known = cluster.reduced.get(client)
        if known is None:
            after = self._read.get((client, cluster.reading))
            if after is None:
                after = self._read[client, cluster.reading] = self._reads(client, cluster.reading)
            known = cluster.reduced[client] = self._settled_state(number, after)
        return known

    def _settled_state(self, number: int, client: int) -> int:
        cluster = self._clusters[number]
        if (old := cluster.leaders) is not None:
            waiting = self._busy[client][1]
            if waiting in cluster.small:
                small = cluster.small[waiting]
            else:
                state = self._state((number, client))
                small = cluster.small[waiting] = ends_small(self._model, state, old)
            if small is not None:
                number, client = self._lone(number, client, old, small=small)
        return self.number(number, client)

    def _lone(self, number: int, client: int, old: int, *, small: bool) -> Pair:
        cluster = self._clusters[number]
        there, log = client, cluster.log
        if log is not None:
            known = self._settled.get((log, client))
            if known is None:
                epoch = cluster.parts[0].epoch
                after, records = settled_records(self._model, self._clients[client], log, epoch)
                known = self._settled[log, client] = self._client(after), records
            there, log = known
        take = cluster.in_logs
        statuses = take(self._clients[client].status) if take is not None else None
        key = (small, log, statuses)
        lone = cluster.lone.get(key)
        if lone is None:
            state = alone(self._model, self._state((number, client)), old, small=small)
            lone = cluster.lone[key] = self.cluster(state)
        return lone, there

    def _reads(self, client: int, reading: tuple[int, int, int]) -> int:
        readable, unremovable_records, past = reading
        after = with_reads(self._model, self._clients[client], readable, unremovable_records)
        return self._client(without_past_records(self._model, after, past))

    def _client(self, client: Client) -> int:
        known = self._client_numbers.get(client)
        if known is None:
            known = self._client_numbers[client] = len(self._clients)
            self._clients.append(client)
            flying = waiting = 0
            for status in client.status:
                if status >= self._model.appended:
                    waiting |= 1 << status - self._model.appended
                elif status >= FLYING:
                    flying |= 1 << status - FLYING
            self._busy.append((flying, waiting))
        return known

    def cluster(self, state: State) -> int:
        parts = (state.controller, state.brokers, state.run, state.harm)
        known = self._cluster_numbers.get(parts)
        if known is None:
            known = self._cluster_numbers[parts] = len(self._clusters)
            self._clusters.append(self._described(state, parts))
        return known

    def _described(self, state: State, parts: _Parts) -> _Cluster:
        model, brokers, leader = self._model, state.brokers, state.controller.leader
        reachable = leader != NOBODY and brokers[leader].alive
        old = log = None
        if model.reduces(state) and has_final_leader(model, state):
            old = old_leaders(state)
            if not (old and old >> max(0, brokers[leader].leader) & 1):
                log = brokers[leader].log
        logged = {record_of(one) for broker in brokers for one in broker.log}
        stored = frozenset(logged) if self._gives_up else None
        return _Cluster(
            parts=parts,
            moves=None,
            timers=[],
            prompt=False,
            waits=awaits_heals_only(model, state),
            producer=(state.run.phase, leader if reachable else NOBODY),
            requests=tuple(self._view(state, stored, number) for number in range(len(brokers))),
            reading=(
                readable_records(state),
                unremovable(model, state),
                model.sent_before[state.run.phase] if model.reduction else 0,
            ),
            leaders=old,
            log=log,
            stored=stored,
            in_logs=itemgetter(*sorted(logged)) if old and logged else None,
        )

    def _view(self, state: State, stored: frozenset[int] | None, number: int) -> int:
        """Return a number for the parts of a cluster that `transitions.requests` reads."""
        others = tuple((broker.alive, broker.epoch) for broker in state.brokers)
        key = (state.brokers[number], others, state.run, state.harm, stored)
        return self._views.setdefault(key, len(self._views))
