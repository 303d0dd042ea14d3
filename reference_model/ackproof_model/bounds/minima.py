"""The smallest budgets that lose an acked record, found by the adversary, and stored.

A budget that allows a losing one loses, too. So a few smallest ones (an antichain), and the total
up to which all others were searched without a loss, answer every budget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import product
from pathlib import Path

from ackproof_model.adversary import Budgets, search
from ackproof_model.adversary.state import Label
from ackproof_model.bounds.question import Question
from ackproof_model.bounds.stress import Budget
from ackproof_model.source_digest import digest

_FILE = Path(__file__).with_name("losing.json")
#: What the adversary's results depend on.
_RULES = (
    *("configuration.py", "kafka/*.py", "adversary/*.py"),
    *(
        f"replication/{name}.py"
        for name in (
            *("controller", "leader", "log_truncation", "policy", "safety_checks", "state"),
            "zookeeper",
        )
    ),
)
_KINDS = tuple(field.name for field in fields(Budget))


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum:
    """A smallest losing budget, and a shortest way to the loss."""

    budget: Budget
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minima:
    """What is known of one question.

    searched: every budget of at most so many perturbations in all that allows none of `losing`
    loses nothing. states: how many states that took.
    """

    losing: tuple[Minimum, ...]
    searched: int
    states: int

    def lost_by(self, budget: Budget) -> Minimum | None:
        """Return the shortest loss that the budget allows."""
        found = [one for one in self.losing if one.budget.within(budget)]
        return min(found, key=lambda one: len(one.steps), default=None)

    def excludes(self, budget: Budget) -> bool:
        """Whether the search has shown that the budget loses nothing."""
        return budget.total <= self.searched and self.lost_by(budget) is None


def search_minima(
    question: Question, *, total: int, known: Minima | None = None, max_states: int = 3_000_000
) -> Minima:
    """Find the smallest losing budgets of at most `total` perturbations, one size after another.

    Stops at the size at which a search needs more than `max_states` states. `known` are the
    results for smaller totals.
    """
    losing = list(known.losing) if known else []
    states = known.states if known else 0
    start = known.searched if known else 0
    for size in range(start + 1, total + 1):
        safe: set[tuple[int, ...]] = set()
        while (caps := next(_unsettled(losing, size, safe), None)) is not None:
            limits = dict(zip(_KINDS, caps, strict=True))
            model = question.model(budgets=Budgets(**limits, in_all=size))
            result = search(model, max_states=max_states)
            states += result.states
            if result.lost:
                losing.append(_minimum([label for label, _ in result.trace]))
            elif not result.complete:
                return Minima(losing=tuple(losing), searched=size - 1, states=states)
            else:
                safe.add(caps)
    return Minima(losing=tuple(losing), searched=total, states=states)


def _unsettled(
    losing: Iterable[Minimum], size: int, safe: set[tuple[int, ...]]
) -> Iterator[tuple[int, ...]]:
    """Yield the largest limits of each kind that allow no losing budget and were not searched."""
    allowed = [
        caps
        for caps in product(range(size + 1), repeat=len(_KINDS))
        if sum(caps) >= size and not any(_allows(caps, one.budget) for one in losing)
    ]
    for caps in sorted(allowed, key=sum, reverse=True):
        if not any(all(one <= most for one, most in zip(caps, done, strict=True)) for done in safe):
            yield caps


def _allows(caps: tuple[int, ...], budget: Budget) -> bool:
    return all(one <= cap for one, cap in zip(budget.counts(), caps, strict=True))


#: The labels of the adversary's perturbations.
_LABELS = {
    "kill": "kills",
    "lose power": "power_losses",
    "stop": "clean_stops",
    "shrink": "shrinks",
    "cut off": "fencings",
}


def _minimum(trace: list[Label]) -> Minimum:
    kinds = [_LABELS[str(label[0])] for label in trace if label[0] in _LABELS]
    return Minimum(
        budget=Budget(**{kind: kinds.count(kind) for kind in set(kinds)}),
        steps=tuple(" ".join(map(str, label)) for label in trace),
    )


@cache
def stored() -> dict[str, Minima]:
    """Return the stored results by `Question.key`."""
    results = json.loads(_FILE.read_text())["results"]
    return {key: _read(result) for key, result in results.items()}


def is_current() -> bool:
    """Whether the stored results were searched with the rules of this source."""
    return bool(json.loads(_FILE.read_text())["source"] == digest(*_RULES))


def write(results: dict[str, Minima], *, to: Path = _FILE) -> None:
    document = {
        "source": digest(*_RULES),
        "results": {key: asdict(result) for key, result in sorted(results.items())},
    }
    to.write_text(json.dumps(document, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def _read(result: dict[str, object]) -> Minima:
    losing = result["losing"]
    assert isinstance(losing, list)
    return Minima(
        losing=tuple(
            Minimum(budget=Budget(**one["budget"]), steps=tuple(one["steps"])) for one in losing
        ),
        searched=int(str(result["searched"])),
        states=int(str(result["states"])),
    )
