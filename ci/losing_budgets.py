"""Searches the smallest losing budgets of every set of rules, and stores them in `losing.json`.

`ci/bounds` calls it. Results of the same source are kept, and extended to a larger total. Ends with
1 if a stored result is refuted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path

from ackproof_model.adversary import Budgets, search
from ackproof_model.bounds.losing import FILE, Minima, Minimum, Question, stored
from ackproof_model.configuration import Acks
from ackproof_model.exposure import Budget
from ackproof_model.replication.state import Label
from ackproof_model.source_digest import digest

#: What the adversary's results depend on.
_RULES = (
    *("configuration.py", "kafka/*.py", "adversary/*.py"),
    *(
        f"replication/{name}.py"
        for name in ("controller", "isr", "leader", "log_truncation", "policy", "replica", "state")
    ),
)
_KINDS = tuple(field.name for field in fields(Budget))


#: A version of each set of rules that matters, those that are tested most first.
_VERSIONS = (
    *("4.3.1", "3.9.1", "2.6.2", "0.10.2.2", "4.0.1", "3.6.2", "3.5.2"),
    *("3.4.1", "2.8.2", "2.3.1", "2.0.1", "2.0.0", "1.1.1"),
)
_ALL_ACKS: tuple[Acks, ...] = ("1", "all")


def questions() -> Iterator[Question]:
    """Yield a question of each key, those of three replicas and min.insync.replicas=2 first."""
    found: dict[str, Question] = {}
    for minimum, replicas in ((2, 3), (1, 3), (1, 2), (2, 2), (1, 1), (3, 3)):
        for version in _VERSIONS:
            for acks in _ALL_ACKS:
                for unclean in (False, True):
                    for elr in (False, True) if version >= "4" else (False,):
                        question = Question(
                            kafka_version=version,
                            elr=elr,
                            acks=acks,
                            replicas=replicas,
                            min_insync_replicas=minimum,
                            unclean=unclean,
                        )
                        found.setdefault(question.key, question)
    yield from found.values()


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
    "move leader": "leader_moves",
}


def _minimum(trace: list[Label]) -> Minimum:
    kinds = [_LABELS[str(label[0])] for label in trace if label[0] in _LABELS]
    return Minimum(
        budget=Budget(**{kind: kinds.count(kind) for kind in set(kinds)}),
        steps=tuple(" ".join(map(str, label)) for label in trace),
    )


def is_current() -> bool:
    """Whether the stored results were searched with the rules of this source."""
    return bool(json.loads(FILE.read_text())["source"] == digest(*_RULES))


def write(results: dict[str, Minima], *, to: Path = FILE) -> None:
    document = {
        "source": digest(*_RULES),
        "results": {key: asdict(result) for key, result in sorted(results.items())},
    }
    to.write_text(json.dumps(document, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--total", type=int, default=2, help="perturbations in all")
    options.add_argument("--only", default="", help="only questions whose key has this text")
    given = options.parse_args()
    before = stored()
    results = dict(before) if is_current() else {}
    for question in questions():
        if given.only not in question.key:
            continue
        known = results.get(question.key)
        if known is None or known.searched < given.total:
            result = search_minima(question, total=given.total, known=known)
            results[question.key] = result
            write(results)
            losing = "; ".join(str(one.budget) for one in result.losing) or "nothing"
            _say(f"{question.key}: up to {result.searched}: {losing} ({result.states} states)")
    refuted = [
        key
        for key, result in results.items()
        for one in result.losing
        if key in before and before[key].excludes(one.budget)
    ]
    for key in refuted:
        _say(f"refuted: {key}")
    return 1 if refuted else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
