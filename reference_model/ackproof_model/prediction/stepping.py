"""The steps of `transitions`, memoised by the parts of a state that they read.

A state is a pair of numbers: of its clients, and of its cluster, which is everything else (collapse
compression, as in SPIN). A search of 100,000 states has 1,000 to
30,000 clusters and 300 to 10,000 clients. A test compares this with the rules, run for each state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from ackproof_model.replication.model import Model
from ackproof_model.replication.producer import disconnect, step_down
from ackproof_model.replication.reading import readable_records, unremovable, with_reads
from ackproof_model.replication.reduction import (
    alone,
    awaits_heals_only,
    ends_small,
    has_final_leader,
    old_leaders,
    settled_records,
    without_past_records,
)
from ackproof_model.replication.state import (
    FLYING,
    NOBODY,
    Broker,
    Client,
    Controller,
    Harm,
    Label,
    Run,
    State,
    Timer,
    members,
    record_of,
)
from ackproof_model.replication.transitions import (
    cluster_moves,
    exits,
    in_force,
    producer_steps,
    requests,
)

#: Steps of brokers and controllers that wait for no timer and may change who leads or is in sync.
PROMPT = {"learn", "fetch", "truncate", "expand", "catch up", "rejoin", "unfence", "exit"}

#: A state: the numbers of its cluster and of its clients.
Pair = tuple[int, int]

#: A step: its label, the number of the state that it leads to, and the timer that it waits for.
NumberedStep = tuple[Label, int, Timer | None]

_Parts = tuple[Controller, tuple[Broker, ...], Run, Harm]

#: A step of brokers or controllers, with the cases of `transitions.Move`.
_Move = tuple[Label | None, int, "_Numbers | None", Timer | None]

#: A step of a request: its label, the broker after it (None if it does not change), the clients
#: after it, and its timer.
_Request = tuple[Label, Broker | None, int, Timer | None]


class _Numbers(dict[int, int]):
    """By clients: the number of a state of one cluster, computed when first needed."""

    __slots__ = ("_compute", "cluster")

    def __init__(self, cluster: int, compute: Callable[[int, int], int]) -> None:
        self.cluster = cluster
        self._compute = compute

    def __missing__(self, client: int) -> int:
        number = self[client] = self._compute(self.cluster, client)
        return number


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps from a cluster.

    moves, timers: those of brokers and controllers, and the timers that they wait for (requests
    need not time out, see `Model.must_have_fired`). prompt: whether some of them are prompt. sends:
    those of the producer, by clients. requests: those of the requests at each broker, by clients.
    Clusters that are alike to the rules share the latter.
    """

    moves: list[_Move]
    timers: list[Timer]
    prompt: bool
    sends: dict[int, list[tuple[Label, int]]]
    requests: list[dict[int, list[_Request]]]


_NO_STEPS = Steps(moves=[], timers=[], prompt=False, sends={}, requests=[])


@dataclass(slots=True)
class _Cluster:
    """A value of the cluster, and the parts that reductions read.

    steps, reading: computed when first needed. reading: the records that consumers read, those that
    need no mark, and how many records belong to earlier phases. leaders: None without a final
    leader, else the old leaders. log: that of the final leader, where it is settled. in_logs: takes
    from statuses those of the records in logs. stored: the records in logs, where a record may be
    given up.
    """

    parts: _Parts
    waits: bool
    leaders: int | None
    log: tuple[int, ...] | None
    stored: frozenset[int] | None
    in_logs: itemgetter[tuple[int, ...]] | None
    # By clients: the number of the state with this cluster, of its reduced state once consumers
    # have read, and of its reduced state without reads.
    own: dict[int, int]
    reduced: _Numbers
    standing: _Numbers
    steps: Steps | None = None
    reading: tuple[int, int, int] | None = None
    # By brokers with requests that wait: see `ends_small`.
    small: dict[int, bool | None] = field(default_factory=dict)
    changed: dict[tuple[int, Broker], _Numbers] = field(default_factory=dict)
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
        self._surroundings: dict[object, int] = {}
        self._sends: dict[tuple[int, int], dict[int, list[tuple[Label, int]]]] = {}
        self._requests: dict[tuple[int, Broker, int], dict[int, list[_Request]]] = {}
        self._read: dict[tuple[int, tuple[int, int, int]], int] = {}
        self._without_past: dict[tuple[int, int], int] = {}
        self._disconnected: dict[tuple[int, int, frozenset[int] | None], int] = {}
        self._settled: dict[tuple[tuple[int, ...], int], tuple[int, tuple[int, ...]]] = {}

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

    def steps_of(self, cluster: int) -> Steps:
        """Return the steps from a cluster; none if they were never needed."""
        return self._clusters[cluster].steps or _NO_STEPS

    def standing(self, cluster: int) -> Mapping[int, int]:
        """Return, by clients, a cluster's reduced states if consumers have not read in between."""
        return self._clusters[cluster].standing

    def pair(self, state: State) -> Pair:
        return self.cluster(state), self._client(state.client)

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
        own = cluster.steps
        if own is None:
            own = cluster.steps = self._steps(pair)
        reduced = cluster.reduced
        sends = own.sends.get(client)
        if sends is None:
            sends = own.sends[client] = self._producer_steps(pair)
        steps: list[NumberedStep] = [(label, reduced[after], None) for label, after in sends]
        flying, waiting = self._busy[client]
        busy = flying | waiting
        for label, broker, there, timer in own.moves:
            if label is None:
                if busy >> broker & 1:
                    steps += self._request_steps(pair, broker, own.requests[broker])
            elif there is None:
                for exit_label, state, _ in exits(self._model, self._state(pair), broker):
                    steps.append((exit_label, self._number(state), None))
            elif broker >= 0 and waiting >> broker & 1:
                state = step_down(self._model, self._state((there.cluster, client)), broker)
                steps.append((label, self._number(state), timer))
            else:
                steps.append((label, there[client], timer))
        return steps

    def _request_steps(
        self, pair: Pair, broker: int, known: dict[int, list[_Request]]
    ) -> Iterator[NumberedStep]:
        """Yield the steps of the requests at a broker."""
        number, client = pair
        cluster = self._clusters[number]
        served = known.get(client)
        if served is None:
            served = known[client] = self._served(pair, broker)
        for label, changed, after, timer in served:
            there = cluster.reduced
            if changed is not None:
                key = broker, changed
                if key not in cluster.changed:
                    state = self._state(pair).with_broker(broker, changed)
                    cluster.changed[key] = self._clusters[self.cluster(state)].reduced
                there = cluster.changed[key]
            yield label, there[after], timer

    def _number(self, state: State) -> int:
        """Return the number of the reduced state after a step, once consumers have read."""
        cluster, client = self.pair(state)
        return self._clusters[cluster].reduced[client]

    def _served(self, pair: Pair, broker: int) -> list[_Request]:
        """Return the steps of the requests at a broker."""
        state = self._state(pair)
        own = state.brokers[broker]
        steps: list[_Request] = []
        for label, after, timer in requests(self._model, state, broker):
            changed = None if after.brokers[broker] == own else after.brokers[broker]
            steps.append((label, changed, self._client(after.client), timer))
            self.taken.add(label[0])
        return steps

    def _producer_steps(self, pair: Pair) -> list[tuple[Label, int]]:
        steps = list(producer_steps(self._model, self._state(pair)))
        self.taken.update(label[0] for label, _, _ in steps)
        return [(label, self._client(after.client)) for label, after, _ in steps]

    def _steps(self, pair: Pair) -> Steps:
        state, cluster = self._state(pair), self._clusters[pair[0]]
        moves: list[_Move] = []
        kinds: set[str] = set()
        for label, broker, after, timer in cluster_moves(self._model, state):
            there = None if after is None else self._clusters[self.cluster(after)].reduced
            moves.append((label, broker, there, timer))
            if label is not None and after is None:
                kinds |= {ends[0] for ends, _, _ in exits(self._model, state, broker)}
            elif label is not None:
                kinds.add(label[0])
        self.taken |= kinds
        leader = state.controller.leader
        gone = leader == NOBODY or not state.brokers[leader].alive
        around = self._around(state, cluster.stored)
        return Steps(
            moves=moves,
            timers=[timer for _, _, _, timer in moves if timer is not None],
            prompt=not kinds.isdisjoint(PROMPT),
            sends=self._sends.setdefault((state.run.phase, NOBODY if gone else leader), {}),
            requests=[
                self._requests.setdefault((number, broker, around), {})
                for number, broker in enumerate(state.brokers)
            ],
        )

    def _around(self, state: State, stored: frozenset[int] | None) -> int:
        """Return a number for what `transitions.requests` reads besides its broker and clients."""
        others: tuple[tuple[bool, int], ...] = ()
        if self._model.acks == "all":  # only its acks wait for other brokers
            others = tuple((broker.alive, broker.epoch) for broker in state.brokers)
        timer = ("request", in_force(state))
        key = others, timer, self._model.may_have_fired(timer, state), state.harm, stored
        return self._surroundings.setdefault(key, len(self._surroundings))

    def _reduced(self, number: int, client: int) -> int:
        """Return the reduced state of a pair after a step, once consumers have read."""
        cluster = self._clusters[number]
        if cluster.reading is None:
            state = self._state((number, client))
            removable = unremovable(self._model, state)
            cluster.reading = readable_records(state), removable, self._past(state.run)
        key = client, cluster.reading
        after = self._read.get(key)
        if after is None:
            after = self._read[key] = self._reads(*key)
        return self._settled_state(number, after)

    def _standing(self, number: int, client: int) -> int:
        """Return the reduced state of a pair without reads."""
        key = client, self._past(self._clusters[number].parts[2])
        after = self._without_past.get(key)
        if after is None:
            reduced = without_past_records(self._model, self._clients[client], key[1])
            after = self._without_past[key] = self._client(reduced)
        return self._settled_state(number, after)

    def _past(self, run: Run) -> int:
        """Return how many records belong to earlier phases."""
        return self._model.sent_before[run.phase] if self._model.reduction else 0

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
        old = log = None
        if model.reduces(state) and has_final_leader(model, state):
            old = old_leaders(state)
            if not (old and old >> max(0, brokers[leader].leader) & 1):
                log = brokers[leader].log
        read = brokers if old or model.gives_up else ()
        logged = {record_of(one) for broker in read for one in broker.log}
        number = len(self._clusters)
        return _Cluster(
            parts=parts,
            waits=awaits_heals_only(model, state),
            leaders=old,
            log=log,
            stored=frozenset(logged) if model.gives_up else None,
            in_logs=itemgetter(*sorted(logged)) if old and logged else None,
            own={},
            reduced=_Numbers(number, self._reduced),
            standing=_Numbers(number, self._standing),
        )
