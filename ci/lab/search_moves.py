"""Searches the sets of failures with moves of replicas that audits leave undecided.

`ci/lab/moves` calls it. One set after another is searched, of small partitions and the usual rules
first, and each result is stored in `moves.json` at once: a later call goes on there. In these
searches leaders may miss epochs, and the first replica is elected by itself. A search that does not
end is stored with its states, and its set stays undecided. Ends with 1 if a stored result is
refuted.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise, product
from typing import Any

from search_minima import minimum_of

from ackproof_model.adversary import Budgets, search
from ackproof_model.adversary.state import State, initial
from ackproof_model.perturbations import Counts
from ackproof_model.replication.state import NOBODY, Label
from ackproof_model.source_digest import digest
from ackproof_model.worst_case import moves
from ackproof_model.worst_case.failure_sets import (
    REASSIGNMENT,
    Exposed,
    failure_sets,
    perturbations,
)
from ackproof_model.worst_case.minima import ANY, Question
from ackproof_model.worst_case.moves import (
    FILE,
    MISSED_EPOCH,
    REMOVED_MEMBER,
    WAYS,
    Losing,
    Searched,
    Unfinished,
    Way,
    WithMoves,
    moving_key,
    searched_with_moves,
    stored,
)

#: What the results depend on, as in `search_minima`.
_RULES = ("configuration.py", "kafka/*.py", "adversary/*.py", "replication/*.py")
#: A version of each set of rules for moves, with and without eligible leader replicas.
_VERSIONS = (
    *(("4.4.0", True), ("4.4.0", False), ("4.1.2", True), ("4.1.2", False), ("3.9.1", False)),
    *(("3.4.1", False), ("4.0.1", True), ("4.0.1", False), ("3.7.2", False), ("3.6.2", False)),
    ("3.5.2", False),
)
#: min.insync.replicas and replicas: the small ones end soon.
_SIZES = ((1, 1), (1, 2), (2, 2), (2, 3), (1, 3), (3, 3))
#: What a search does besides what its limits allow.
_FREELY = {"spare_brokers": 1, "misses_epochs": True}


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


def undecided(question: Question) -> list[tuple[Counts, bool]]:
    """Return the undecided sets with moves, as numbers, and whether the balancer is on."""
    failure_sets.cache_clear()
    found: dict[tuple[Counts, bool], None] = {}
    for balanced in (True, False):
        exposed = Exposed(question=question, balanced=balanced)
        for failures in failure_sets(exposed).undecided:
            counts = perturbations(exposed, failures)
            # With controllers gone a set is undecided for another reason, also after a search.
            if REASSIGNMENT in failures and not searched_with_moves(
                question, counts, balanced=balanced
            ):
                found[counts, balanced] = None
    return sorted(found, key=lambda one: (one[0].total, one[0].power_losses, not one[1]))


def search_set(
    question: Question, limits: Counts, *, balanced: bool, max_states: int
) -> Searched | Losing | Unfinished:
    """Search one set on one more broker than there are replicas."""
    counts: dict[str, Any] = {kind: n for kind, n in asdict(limits).items() if n < math.inf}
    model = question.model(
        budgets=Budgets(
            **counts, in_all=sum(counts.values()), always_lagging=limits.shrinks == math.inf
        ),
        balanced=balanced,
        **_FREELY,
    )
    found = search(model, max_states=max_states)
    if found.lost:
        labels = [label for label, _ in found.trace]
        return Losing(
            found=minimum_of(labels),
            way=_way(labels, [initial(model), *(state for _, state in found.trace)]),
            balanced=any(label[0] == "balance" for label in labels),
        )
    if not found.complete:
        return Unfinished(limits=limits, states=found.states)
    return Searched(
        limits=limits,
        in_all=int(sum(counts.values())),
        states=found.states,
        elections=True,
        balanced=balanced,
    )


def _way(labels: Sequence[Label], states: Sequence[State]) -> Way | None:
    """Return the kind of a rare loss: what its shortest way has."""
    last = states[-1].controller.leader
    if ("delete", last) in labels:
        return REMOVED_MEMBER
    missed = any(
        what == "learn" and _misses(before, after, numbers[0])
        for (what, *numbers), (before, after) in zip(labels, pairwise(states), strict=True)
    )
    return MISSED_EPOCH if missed else None


def _misses(before: State, after: State, broker: int) -> bool:
    """Whether a leader has learned that it leads again, and not who led in between."""
    was, now = before.brokers[broker], after.brokers[broker]
    again = was.leader == now.leader == broker and was.epoch + 1 < now.epoch
    return again and max(now.remote, default=NOBODY) > NOBODY


def added(known: WithMoves, one: Searched | Losing | Unfinished) -> WithMoves:
    """Return the results with one more, without those that it contains."""
    match one:
        case Losing():
            return replace(known, losing=(*known.losing, one))
        case Unfinished():
            others = [each for each in known.unfinished if each.limits != one.limits]
            return replace(known, unfinished=(*others, one))
    open_ = [each for each in known.unfinished if not one.covers(each.limits)]
    return replace(known, searched=(*known.searched, one), unfinished=tuple(open_))


def write(results: Mapping[str, WithMoves]) -> None:
    """Store the results; counts of 0 and what is empty or false are left out."""
    searches = {
        key: _filled(
            searched=[
                {"limits": _counts(one.limits), "in_all": one.in_all, "states": one.states}
                | _filled(elections=one.elections, balanced=one.balanced)
                for one in found.searched
            ],
            losing=[
                {"budget": _counts(one.found.counts), "steps": one.found.steps}
                | _filled(way=_name(one.way), balanced=one.balanced)
                for one in found.losing
            ],
            unfinished=[
                {"limits": _counts(one.limits), "states": one.states} for one in found.unfinished
            ],
        )
        for key, found in sorted(results.items())
    }
    document = {"source": digest(*_RULES), "searches": searches}
    FILE.write_text(json.dumps(document, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    stored.cache_clear()
    moves.stored.cache_clear()


def _filled(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}


def _name(way: Way | None) -> str:
    return next((name for name, one in WAYS.items() if one is way), "")


def _counts(counts: Counts) -> dict[str, int]:
    kinds = asdict(counts).items()
    return {kind: ANY if n == math.inf else int(n) for kind, n in kinds if n}


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--max-states", type=int, default=30_000_000)
    options.add_argument("--only", default="", help="only questions whose key has this text")
    options.add_argument("--seconds", type=float, default=math.inf, help="begin no search later")
    options.add_argument(
        "--keep", action="store_true", help="keep results of an older source of the rules"
    )
    given = options.parse_args()
    began, before = time.monotonic(), stored()
    current = json.loads(FILE.read_text()).get("source") == digest(*_RULES)
    results = dict(before) if current or given.keep else {}
    if not results:
        write(results)
    refuted = 0
    for question in questions():
        key = moving_key(question)
        tried: set[tuple[Counts, bool]] = set()
        while given.only in key and time.monotonic() - began < given.seconds:
            unfinished = results.get(key, WithMoves()).unfinished
            tried_states = {one.limits: one.states for one in unfinished}
            waiting = [
                one
                for one in undecided(question)
                if one not in tried and tried_states.get(one[0], 0) < given.max_states
            ]
            if not waiting:
                break
            limits, balanced = waiting[0]
            tried.add(waiting[0])
            one = search_set(question, limits, balanced=balanced, max_states=given.max_states)
            refuted += isinstance(one, Losing) and any(
                each.covers(one.found.counts) for each in before.get(key, WithMoves()).searched
            )
            results[key] = added(results.get(key, WithMoves()), one)
            write(results)
            states = "" if isinstance(one, Losing) else f" {one.states} states"
            _say(f"{key}: {_counts(limits)}: {type(one).__name__}{states}")
    return 1 if refuted else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
