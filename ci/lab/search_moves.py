"""Searches one and two moves of replicas with further failures, and stores what loses nothing.

`ci/lab/moves` calls it. An audit reads `moves.json`: sets of failures that were not searched stay
undecided. Ends with 1 if a search finds a loss, or needs more states than `--max-states`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product

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
#: The limits of each search, and how many perturbations it has together.
_LIMITS = ((_TWICE, 2), (_ONE_MORE, 2))


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


def searched(question: Question, limits: Counts, in_all: int, max_states: int) -> Searched | None:
    """Search on one more broker than there are replicas; None after a loss, or without an end."""
    counts = {kind: int(number) for kind, number in asdict(limits).items()}
    model = question.model(budgets=Budgets(**counts, in_all=in_all), spare_brokers=1)
    found = search(model, max_states=max_states)
    if found.lost or not found.complete:
        return None
    return Searched(limits=limits, in_all=in_all, states=found.states)


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


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--max-states", type=int, default=8_000_000)
    given = options.parse_args()
    current = json.loads(FILE.read_text()).get("source") == digest(*_RULES)
    results = dict(stored()) if current else {}
    failed = False
    for question in questions():
        key = moving_key(question)
        for limits, in_all in _LIMITS:
            known = results.get(key, ())
            if any(one.covers(limits) or one.limits == limits for one in known):
                continue
            found = searched(question, limits, in_all, given.max_states)
            failed = failed or found is None
            states = f"{found.states} states" if found else "not without a loss, or not ended"
            sys.stdout.write(f"{key}: {limits}, {in_all} together: {states}\n")
            sys.stdout.flush()
            if found:
                results[key] = (*known, found)
                write(results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
