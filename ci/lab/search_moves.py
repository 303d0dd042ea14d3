"""Searches one and two moves of replicas with further failures, and stores what loses nothing.

`ci/lab/moves` calls it. An audit reads `moves.json`: sets of failures that are not there stay
undecided, also after a search that finds a loss or does not end. Ends with 1 if a stored result is
refuted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

from ackproof_model.adversary import Budgets, search
from ackproof_model.perturbations import Counts
from ackproof_model.source_digest import digest
from ackproof_model.worst_case.minima import Question
from ackproof_model.worst_case.moves import FILE, Searched, moving_key, stored

#: What the results depend on, as in `search_minima`.
_RULES = ("configuration.py", "kafka/*.py", "adversary/*.py", "replication/*.py")
#: A version of each set of rules for moves, with and without eligible leader replicas.
_VERSIONS = (
    *(("4.4.0", True), ("4.1.2", True), ("4.0.1", True), ("4.4.0", False), ("4.1.2", False)),
    *(("4.0.1", False), ("3.9.1", False), ("3.7.2", False), ("3.6.2", False), ("3.5.2", False)),
    ("3.4.1", False),
)
#: min.insync.replicas and replicas, the usual ones first.
_SIZES = ((2, 3), (1, 3), (3, 3), (1, 1), (1, 2), (2, 2))
_ONE_MORE = Counts(
    reassignments=1, kills=1, power_losses=1, clean_stops=1, fencings=1, leader_moves=1
)
_TWICE = Counts(reassignments=2)
#: Searches of two perturbations: all together, and each pair if the first finds a loss.
_TOGETHER = (_TWICE, _ONE_MORE)
_PAIRS = tuple(
    Counts(reassignments=1, **{kind: 1})
    for kind in ("kills", "power_losses", "clean_stops", "fencings", "leader_moves")
)


def questions() -> Iterator[Question]:
    """Yield a question of each key: acks=all and no unclean election."""
    found: dict[str, Question] = {}
    for (minimum, replicas), (version, elr) in product(_SIZES, _VERSIONS):
        question = Question(
            kafka_version=version,
            elr=elr,
            acks="all",
            replicas=replicas,
            min_insync_replicas=minimum,
            unclean=False,
        )
        found.setdefault(moving_key(question), question)
    yield from found.values()


def searches(question: Question, max_states: int) -> Iterator[Searched]:
    """Yield the searches that end without a loss."""
    for limits in _TOGETHER:
        found = searched(question, limits, max_states)
        parts = () if found or limits == _TWICE else _PAIRS
        yield from filter(None, [found, *(searched(question, one, max_states) for one in parts)])


def searched(question: Question, limits: Counts, max_states: int) -> Searched | None:
    """Search on one more broker than there are replicas; None after a loss, or without an end."""
    counts: dict[str, Any] = {kind: int(number) for kind, number in asdict(limits).items()}
    model = question.model(budgets=Budgets(**counts, in_all=2), spare_brokers=1)
    found = search(model, max_states=max_states)
    said = "a loss" if found.lost else "no loss" if found.complete else "no end"
    sys.stdout.write(f"{moving_key(question)}: {limits}: {said} in {found.states} states\n")
    sys.stdout.flush()
    if found.lost or not found.complete:
        return None
    return Searched(limits=limits, in_all=2, states=found.states)


def write(results: dict[str, tuple[Searched, ...]]) -> None:
    """Store the results; counts of 0 are left out."""
    searches = {
        key: [
            {
                "limits": {kind: int(n) for kind, n in asdict(one.limits).items() if n},
                "in_all": one.in_all,
                "states": one.states,
            }
            for one in found
        ]
        for key, found in sorted(results.items())
    }
    document = {"source": digest(*_RULES), "searches": searches}
    FILE.write_text(json.dumps(document, separators=(",", ":")).replace('],"', '],\n"') + "\n")


def _holds(one: Searched, now: Sequence[Searched]) -> bool:
    """Whether the searches of now cover what was stored."""
    parts = [pair for pair in _PAIRS if pair.within(one.limits)] or [one.limits]
    return all(any(found.covers(part) for found in now) for part in parts)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--max-states", type=int, default=8_000_000)
    given = options.parse_args()
    before = stored()
    current = json.loads(FILE.read_text()).get("source") == digest(*_RULES)
    results = dict(before) if current else {}
    for question in questions():
        key = moving_key(question)
        if key not in results:
            results[key] = tuple(searches(question, given.max_states))
            write(results)
    held = (_holds(one, results.get(key, ())) for key, known in before.items() for one in known)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
