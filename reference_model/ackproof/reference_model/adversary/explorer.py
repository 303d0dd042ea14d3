"""What packed states lead to: the inner loop of the search."""

from __future__ import annotations

from collections.abc import Iterable

from ackproof.reference_model.adversary.bounds import Question
from ackproof.reference_model.adversary.packing import Differences, Effects, Packing
from ackproof.reference_model.adversary.state import initial

#: A broker's number, its name (number + 1), and what is remembered of its steps with the
#: controller, as long as the same kinds of perturbation are left.
_Broker = tuple[int, int, dict[int, tuple[Differences, int]]]


class Explorer:
    """Steps from packed states to packed states, remembering what each rule does to which parts."""

    def __init__(self, question: Question) -> None:
        self.packing = Packing(question)
        self.start = self.packing.state(initial(question))
        self._effects = Effects(self.packing)
        n = question.replicas
        self._brokers: dict[tuple[int, ...], list[_Broker]] = {}
        self._restart: list[dict[int, int]] = [{} for _ in range(n * n)]
        self._writes: list[dict[int, tuple[Differences, Differences]]] = [{} for _ in range(n)]
        self._fetch: list[dict[int, int]] = [{} for _ in range(n * n)]
        self._left: dict[int, tuple[list[_Broker], bool]] = {}

    def _of_left(self, left: int) -> tuple[list[_Broker], bool]:
        """Return the brokers while such budgets are left, and whether one deposes a leader."""
        kinds, deposing = self._effects.kinds_left(left)
        n = self.packing.question.replicas
        brokers = self._brokers.setdefault(kinds, [(k, k + 1, {}) for k in range(n)])
        self._left[left] = brokers, deposing
        return brokers, deposing

    def _restarted(self, number: int, own: list[int]) -> int:
        """Return what a broker's restart changes in what the others know."""
        n, total = len(own), 0
        for other in range(n):
            if other != number:
                memory = self._restart[other * n + number]
                told = memory.get(own[other])
                if told is None:
                    told = memory[own[other]] = self._effects.of_restart(other, own[other], number)
                total += told
        return total

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
        epochs_mask, status_mask = (1 << acked_at) - 1, packing.status_mask
        name_mask, log_at = packing.leader_mask, packing.term_bits
        term_mask = (1 << log_at) - 1
        places, by_left = packing.replica_at, self._left
        served, fetches = self._writes, self._fetch
        for state in states:
            part, written = state & part_mask, state >> writes_at & writes_mask
            own = [state >> place & own_mask for place in places]
            chief = own[(part & name_mask) - 1] if part & name_mask else 0
            missing = (written >> acked_at) & ~(chief >> log_at)
            if missing and chief and part & term_mask == chief & term_mask:
                return state
            left = state >> left_at
            brokers, deposing = by_left.get(left) or self._of_left(left)
            if reduction and not deposing and not missing and chief & status_mask:
                leader = part & name_mask
                if all(k + 1 == leader or own[k] & name_mask != k + 1 for k in range(n)):
                    continue

            steps: list[int] = []
            for number, name, controlled in brokers:
                mine = own[number]
                leader = mine & name_mask
                if leader == name:
                    key = written << own_bits | mine
                    served_here = served[number].get(key)
                    if served_here is None:
                        served_here = effects.of_writes(number, mine, written)
                        served[number][key] = served_here
                    appends, acks = served_here
                    if acks:
                        if reduction:
                            found.add(state + acks[0])
                            break
                        steps += acks
                    steps += appends
                elif leader:
                    theirs = own[leader - 1]
                    if theirs & name_mask == leader:
                        epochs = written & epochs_mask
                        key = epochs << both_bits | theirs << own_bits | mine
                        memory = fetches[number * n + leader - 1]
                        fetched = memory.get(key)
                        if fetched is None:
                            fetched = effects.of_fetch(number, mine, leader - 1, theirs, epochs)
                            memory[key] = fetched
                        if fetched:
                            steps.append(fetched)
                key = mine << part_bits | part
                known = controlled.get(key)
                if known is None:
                    kinds = effects.kinds_left(left)[0]
                    known = controlled[key] = effects.of_controller(number, part, mine, kinds)
                steps += known[0]
                if known[1]:
                    steps.append(known[1] + self._restarted(number, own))
            else:
                found.update([state + step for step in steps])
        return None
