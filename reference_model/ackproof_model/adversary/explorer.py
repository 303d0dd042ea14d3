"""The inner loop of the search: the successors of packed states.

States with the same head are expanded together: they have the same controller and producer, so only
their brokers differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ackproof_model.adversary.packing import (
    BROKER_BITS,
    Brokers,
    Difference,
    PackedSteps,
    Packing,
    Steps,
)
from ackproof_model.adversary.state import AdversaryModel, State, initial
from ackproof_model.adversary.successors import OF_NO_BROKER, reads_controller

#: States: the tails by their head.
Tails = defaultdict[int, set[int]]

#: Memoised steps of a broker under one head, by the number of its value: with the controller;
#: appends and acks.
_Controlled = dict[int, Steps]
_Served = dict[int, tuple[tuple[Difference, ...], tuple[Difference, ...]]]

_BROKER_MASK = (1 << BROKER_BITS) - 1


class Explorer:
    """Expands packed states; memoises the effect of each rule by the parts that it reads."""

    def __init__(self, model: AdversaryModel) -> None:
        self.packing = Packing(model)
        self.brokers = Brokers(self.packing)
        self._steps = PackedSteps(self.packing, self.brokers)
        n = model.brokers
        self._shifts = [number * BROKER_BITS for number in range(n)]
        self._controlled: dict[tuple[int, tuple[int, ...]], list[_Controlled]] = {}
        self._free: dict[int, list[_Controlled]] = {}
        self._perturbed: dict[tuple[int, int], list[dict[int, tuple[Difference, ...]]]] = {}
        self._served: dict[int, list[_Served]] = {}
        self._fetches: list[dict[int, int]] = [{} for _ in range(n * n)]
        self._restarts: list[dict[int, int]] = [{} for _ in range(n * n)]
        self._left: dict[int, tuple[tuple[int, ...], bool]] = {}
        self.start = self.pack(initial(model))

    def pack(self, state: State) -> tuple[int, int]:
        tails = (
            self.brokers.of(broker) << shift
            for shift, broker in zip(self._shifts, state.brokers, strict=True)
        )
        return self.packing.head(state.controller, state.writes, state.left), sum(tails)

    def read(self, head: int, tail: int) -> State:
        part, written, left = self._split(head)
        return State(
            self.packing.read_controller(part),
            tuple(self.brokers.values[tail >> shift & _BROKER_MASK] for shift in self._shifts),
            self.packing.read_writes(written),
            self.packing.read_left(left),
        )

    def _split(self, head: int) -> tuple[int, int, int]:
        packing = self.packing
        return (
            head & (1 << packing.controller_bits) - 1,
            head >> packing.writes_at & (1 << packing.writes_bits) - 1,
            head >> packing.left_at,
        )

    def _restarted(self, number: int, own: list[int]) -> int:
        n, total = len(own), 0
        for other in range(n):
            if other != number:
                memory = self._restarts[other * n + number]
                change = memory.get(own[other])
                if change is None:
                    change = memory[own[other]] = self._steps.of_restart(other, own[other], number)
                total += change
        return total

    def expand(self, head: int, tails: Iterable[int], successors: Tails) -> list[int]:  # noqa: PLR0912, PLR0915
        """Add the successors of states with one head to `successors`.

        Returns the tails of the states that lost acked records (`successors.lost`); they have no
        successors. `successors.successors` is inlined here, which doubles the speed.
        """
        packing, steps, brokers = self.packing, self._steps, self.brokers
        n, reduction = packing.model.brokers, packing.model.reduction
        part, written, left = self._split(head)
        kinds, deposing = self._left.get(left) or self._of_left(left)
        deposing = deposing or steps.replaces_leader(part)
        controlled = self._controlled.setdefault((part, kinds), [{} for _ in range(n)])
        served = self._served.setdefault(written, [{} for _ in range(n)])
        fetches = self._fetches
        leaders, terms, logs = brokers.leaders, brokers.terms, brokers.logs
        staying, shifts, everyone = brokers.staying, self._shifts, range(n)
        acked, chief = written >> packing.acked_at, part & packing.leader_mask
        term = part & (1 << packing.term_bits) - 1
        others = [number for number in everyone if number + 1 != chief]
        here = successors[head]
        losing: list[int] = []
        for tail in tails:
            own = [tail >> shift & _BROKER_MASK for shift in shifts]
            if chief:
                mine = own[chief - 1]
                missing = acked & ~logs[mine]
                if missing:
                    if terms[mine] == term:
                        losing.append(tail)
                        continue
                elif reduction and not deposing and staying[mine]:
                    for number in others:
                        if leaders[own[number]] == number + 1:
                            break
                    else:
                        continue

            same: list[int] = []
            other: list[Difference] = []
            for number in everyone:
                mine = own[number]
                leader = leaders[mine]
                if leader == number + 1:
                    both = served[number].get(mine)
                    if both is None:
                        both = served[number][mine] = steps.of_writes(number, mine, written)
                    appends, acks = both
                    if acks:
                        if reduction:
                            head_by, tail_by = acks[0]
                            successors[head + head_by].add(tail + tail_by)
                            break
                        other += acks
                    other += appends
                elif leader:
                    theirs = own[leader - 1]
                    if leaders[theirs] == leader:
                        memory = fetches[number * n + leader - 1]
                        key = theirs << BROKER_BITS | mine
                        fetched = memory.get(key)
                        if fetched is None:
                            fetched = memory[key] = steps.of_fetch(number, mine, leader - 1, theirs)
                        if fetched:
                            same.append(fetched)
                known = controlled[number].get(mine)
                if known is None:
                    known = controlled[number][mine] = self._of_controller(
                        number, part, mine, kinds
                    )
                unchanged, changed, started = known
                same += unchanged
                other += changed
                if started:
                    other.append((started[0], started[1] + self._restarted(number, own)))
            else:
                here.update([tail + step for step in same])
                for head_by, tail_by in other:
                    successors[head + head_by].add(tail + tail_by)
        return losing

    def _of_left(self, left: int) -> tuple[tuple[int, ...], bool]:
        """See `PackedSteps.kinds_left`."""
        self._left[left] = self._steps.kinds_left(left)
        return self._left[left]

    def _of_controller(self, number: int, part: int, mine: int, kinds: tuple[int, ...]) -> Steps:
        """Return the free steps between controller and broker `number`, and its perturbations."""
        free = self._free.setdefault(part, [{} for _ in self._shifts])[number]
        known = free.get(mine)
        if known is None:
            known = free[mine] = self._steps.of_controller(number, part, mine)
        unchanged, changed, started = known
        for kind in kinds:
            key = (kind, part if reads_controller(self.packing.model, kind) else 0)
            perturbed = self._perturbed.setdefault(key, [{} for _ in self._shifts])[number]
            read = -1 if kind in OF_NO_BROKER else mine
            steps = perturbed.get(read)
            if steps is None:
                steps = perturbed[read] = self._steps.of_perturbation(kind, number, part, mine)
            changed += steps
        return unchanged, changed, started
