"""The search for the shortest way in which an adversary makes acked records go.

Breadth-first, one level after another, so that the first loss found is a nearest one. Only packed
states are kept; the way to a loss is found again from the levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ackproof_model.adversary.bounds import PERTURBATIONS, AdversaryModel
from ackproof_model.adversary.state import Label, State, initial
from ackproof_model.adversary.successors import successors
from ackproof_model.adversary.workers import Workers

#: A search stores at most so many states by default.
MAX_STATES = 30_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversaryResult:
    """What a search found.

    trace: the shortest way to a loss, as (label, state after it); empty if there is none. states:
    how many were stored. levels: how many steps deep it went. complete: False if there was no room
    for more states; then no loss found means nothing. memory_bytes: by how much the processes that
    searched grew at most, all together; 0 if the one that asked did the search.
    """

    model: AdversaryModel
    trace: tuple[tuple[Label, State], ...]
    states: int
    levels: int
    complete: bool
    memory_bytes: int

    @property
    def lost(self) -> bool:
        """Whether acked records can be lost."""
        return bool(self.trace)

    @property
    def impossible(self) -> bool:
        """Whether no acked record can be lost, within `bounds`."""
        return self.complete and not self.lost

    @property
    def bounds(self) -> str:
        """Within what the answer holds."""
        model = self.model
        budgets = model.budgets
        counts = zip(PERTURBATIONS, budgets.of_kinds, strict=True)
        allowed = [f"{count} {kind.replace('_', ' ')}" for kind, count in counts if count]
        return (
            f"{self.states} states of one partition with {model.replicas} replicas, "
            f"{budgets.records} records; at most {', '.join(allowed) or 'no perturbation'}, "
            f"{budgets.perturbations} in all; "
            "healing any number of times, at any time"
            + ("" if self.complete else "; INCOMPLETE: no room for more states")
        )


def search(
    model: AdversaryModel,
    *,
    workers: int = 0,
    max_states: int = MAX_STATES,
    keep: Path | None = None,
    say: Callable[[int, int], None] = lambda level, states: None,
) -> AdversaryResult:
    """Search all that the adversary of `model` can do, in `workers` processes, 0 for this one.

    Stops at the first loss, or after `max_states` states. `say` is told of each finished level,
    and of how many states there are by then. With a folder to `keep` levels in, a search of the
    same model by the same number of processes and the same model goes on where an earlier one
    stood that was interrupted, or had no room for more states.

    Raises EpochOverflowError where more leader epochs or ISR changes come about than a packed state
    can tell apart, and OSError or ValueError if what is kept cannot be written or read.
    """
    with Workers.of(model, workers, keep) as pool:
        sizes, losing = pool.levels, None
        level, states, new = len(sizes) - 2, sum(sizes), sizes[-1]
        while new and losing is None and states <= max_states:
            new, losing = pool.advance()
            states += new
            level += 1
            say(level, states)
        return AdversaryResult(
            model=model,
            trace=() if losing is None else _trace(model, pool, losing, level),
            states=states,
            levels=level,
            complete=not new,
            memory_bytes=pool.memory,
        )


def _trace(
    model: AdversaryModel, pool: Workers, losing: State, level: int
) -> tuple[tuple[Label, State], ...]:
    way = [losing]
    for earlier in reversed(range(level)):
        way.append(pool.before(way[-1], earlier))
    trace = []
    state = initial(model)
    for after in reversed(way[:-1]):
        label = next(label for label, one in successors(model, state) if one == after)
        trace.append((label, after))
        state = after
    return tuple(trace)
