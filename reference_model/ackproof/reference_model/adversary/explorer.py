"""What packed states lead to: the inner loop of the search."""

from __future__ import annotations

from collections.abc import Iterable

from ackproof.reference_model.adversary.bounds import Question
from ackproof.reference_model.adversary.packing import Differences, Effects, Packing
from ackproof.reference_model.adversary.state import initial

_FromController = tuple[Differences, int, tuple[Differences, ...]]
_FromWrites = tuple[Differences, Differences]


class Explorer:
    """Steps from packed states to packed states, remembering what each rule does to which parts."""

    def __init__(self, question: Question) -> None:
        self.packing = Packing(question)
        self.start = self.packing.state(initial(question))
        self._effects = Effects(self.packing)
        n = question.replicas
        self._controller: list[dict[int, _FromController]] = [{} for _ in range(n)]
        self._restart: list[dict[int, int]] = [{} for _ in range(n * n)]
        self._writes: list[dict[int, _FromWrites]] = [{} for _ in range(n)]
        self._fetch: list[dict[int, int]] = [{} for _ in range(n * n)]
        self._left: dict[int, tuple[tuple[int, ...], bool]] = {}

    def expand(self, states: Iterable[int], found: set[int]) -> int | None:  # noqa: PLR0912, PLR0915
        """Add the successors of all states to `found`, unless one has lost acked records.

        Returns the first that has (`successors.lost`), None for none. It does what
        `successors.successors` does; all is inlined, since a call for each state would halve the
        speed.
        """
        packing, effects = self.packing, self._effects
        n, reduction = packing.question.replicas, packing.question.reduction
        part_bits, own_bits = packing.partition_bits, packing.replica_bits
        part_mask, own_mask, both_bits = (1 << part_bits) - 1, (1 << own_bits) - 1, 2 * own_bits
        writes_at, writes_mask = packing.writes_at, (1 << packing.writes_bits) - 1
        acked_at, left_at = packing.acked_at, packing.left_at
        epochs_mask = (1 << acked_at) - 1
        name_mask, log_at = packing.leader_mask, packing.term_bits
        term_mask = (1 << log_at) - 1
        status_mask = packing.status_mask
        brokers = [
            (number, number + 1, place, self._controller[number], self._writes[number])
            for number, place in enumerate(packing.replica_at)
        ]
        fetches, restarts, kinds_left = self._fetch, self._restart, self._left
        add = found.add
        for state in states:
            part, written = state & part_mask, state >> writes_at & writes_mask
            own = [state >> place & own_mask for _, _, place, _, _ in brokers]
            acked, leader = written >> acked_at, part & name_mask
            chief = own[leader - 1] if leader else 0
            missing = acked & ~(chief >> log_at)
            if acked and leader and missing and part & term_mask == chief & term_mask:
                return state

            left = state >> left_at
            budgets = kinds_left.get(left)
            if budgets is None:
                budgets = kinds_left[left] = effects.kinds_left(left)
            kinds, deposing = budgets
            leading = [one for one in brokers if own[one[0]] & name_mask == one[1]]
            if reduction and not deposing and leader and not missing:
                rivals = len(leading) - (chief & name_mask == leader)
                if not rivals and chief & status_mask:
                    continue
            appends: list[int] = []
            acks: Differences = ()
            for number, _, _, _, served in leading:
                mine = own[number]
                key = written << own_bits | mine
                writes = served.get(key)
                if writes is None:
                    writes = served[key] = effects.of_writes(number, mine, written)
                appends += writes[0]
                acks += writes[1]
            if acks:
                if reduction:
                    add(state + acks[0])
                    continue
                appends += acks
            for difference in appends:
                add(state + difference)

            for number, name, _, controlled, _ in brokers:
                mine = own[number]
                key = mine << part_bits | part
                known = controlled.get(key)
                if known is None:
                    known = controlled[key] = effects.of_controller(number, part, mine)
                free, again, perturbed = known
                for difference in free:
                    add(state + difference)
                for kind in kinds:
                    for difference in perturbed[kind]:
                        add(state + difference)
                if again:
                    for other in range(n):
                        if other != number:
                            memory = restarts[other * n + number]
                            told = memory.get(own[other])
                            if told is None:
                                told = effects.of_restart(other, own[other], number)
                                memory[own[other]] = told
                            again += told
                    add(state + again)
                leader = mine & name_mask
                if leader and leader != name:
                    source = leader - 1
                    theirs = own[source]
                    if theirs & name_mask == leader:
                        epochs = written & epochs_mask
                        key = epochs << both_bits | theirs << own_bits | mine
                        memory = fetches[number * n + source]
                        fetched = memory.get(key)
                        if fetched is None:
                            fetched = effects.of_fetch(number, mine, source, theirs, epochs)
                            memory[key] = fetched
                        if fetched:
                            add(state + fetched)
        return None
