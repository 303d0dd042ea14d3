"""The search for a shortest trace by which an adversary makes acked records disappear.

Breadth-first, so the trace is shortest. Only packed states are stored; the trace is reconstructed
from the levels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof_model.adversary.state import AdversaryModel, State, initial
from ackproof_model.adversary.successors import successors
from ackproof_model.replication.state import Label

if TYPE_CHECKING:
    from ackproof_model.adversary.workers import Alone, Several

#: The default limit of stored states.
MAX_STATES = 30_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversaryResult:
    """The result of a search.

    trace: a shortest trace to a loss, as (label, state after it); empty if there is none.
    states: how many were stored. levels: the depth of the search, in steps.
    complete: False if `max_states` ended it; then a loss may still be possible.
    memory_bytes: the peak growth of all worker processes together; 0 without any.
    """

    model: AdversaryModel
    trace: tuple[tuple[Label, State], ...]
    states: int
    levels: int
    complete: bool
    memory_bytes: int

    @property
    def lost(self) -> bool:
        return bool(self.trace)

    @property
    def impossible(self) -> bool:
        """Whether no acked record can be lost, within `scope`."""
        return self.complete and not self.lost

    @property
    def scope(self) -> str:
        """What was searched, in words."""
        model = self.model
        budgets = model.budgets
        counts = zip(budgets.KINDS, budgets.of_kinds, strict=True)
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
    """Search everything that the adversary of `model` can do.

    workers: the number of processes, 0 for this one only. The search stops at the first loss, or
    after `max_states` states. say: is called after each level with its number and the number of
    states so far. keep: a folder for checkpoints; a search of the same model, with as many
    processes and the same source, resumes there after an interruption or with more `max_states`.

    Raises EpochOverflowError if there are more leader epochs or ISR changes than a packed state can
    hold, and OSError or ValueError if a checkpoint cannot be written or read.
    """
    from ackproof_model.adversary.workers import Alone, Several  # an audit needs no processes

    with closing(Several(model, workers, keep) if workers else Alone(model, keep)) as pool:
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
    model: AdversaryModel, pool: Alone | Several, losing: State, level: int
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
