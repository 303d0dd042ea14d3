"""Searches the smallest losing budgets of every set of rules, and stores them in `minima.json`.

`ci/lab/minima` calls it. An audit asks about up to three failures, of which one is that followers
lag: then the budgets have any number of shrinks. Results of the same source are kept, and extended
to more failures. Ends with 1 if a stored result is refuted.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

from ackproof_model.adversary import Budgets, search
from ackproof_model.adversary.state import State, initial
from ackproof_model.adversary.successors import lost, successors
from ackproof_model.configuration import Acks
from ackproof_model.perturbations import Counts
from ackproof_model.replication.state import Label
from ackproof_model.source_digest import digest
from ackproof_model.worst_case.answer import keeps_everything
from ackproof_model.worst_case.minima import ANY, FILE, Minima, Minimum, Question, stored

#: What the adversary's results depend on.
_RULES = ("configuration.py", "kafka/*.py", "adversary/*.py", "replication/*.py")
_KINDS = tuple(field.name for field in fields(Counts))
_LAG, _MOVES = "shrinks", "reassignments"
_FAILURES = tuple(kind for kind in _KINDS if kind not in (_LAG, _MOVES))

#: A version of each set of rules that matters, those that are tested most first.
_VERSIONS = (
    *("4.3.1", "3.9.1", "3.6.2", "2.8.2", "2.6.2", "2.3.1", "1.1.1", "2.0.1", "0.10.2.2"),
    *("3.5.2", "3.4.1", "4.0.1", "2.0.0"),
)
_ALL_ACKS: tuple[Acks, ...] = ("all", "1")
#: min.insync.replicas and replicas, in the order in which they are searched.
_SIZES = ((1, 2), (2, 2), (1, 1), (2, 3), (1, 3), (3, 3))


def questions(sizes: Iterable[tuple[int, int]] = _SIZES) -> Iterator[Question]:
    """Yield a question of each key, the usual ones first."""
    found: dict[str, Question] = {}
    for unclean, (minimum, replicas), version, acks in product(
        (False, True), sizes, _VERSIONS, _ALL_ACKS
    ):
        for elr in (True, False) if version >= "4" else (False,):
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


def budgets(failures: int, question: Question) -> Iterator[Counts]:
    """Yield every budget of so many failures, of which some are lag."""
    lags = 0 if question.replicas == 1 else 1 if question.endless_lag else failures - 1
    for lag in range(lags + 1):
        for chosen in combinations_with_replacement(_FAILURES, failures - lag):
            counts = {kind: chosen.count(kind) for kind in _FAILURES}
            yield Counts(**counts, shrinks=question.lag * lag if lag else 0)


#: A search with more states has no answer, unless `--states` says otherwise.
_MOST_STATES = 8_000_000


def search_minima(
    question: Question,
    *,
    failures: int,
    known: Minima | None = None,
    alike: Iterable[Minimum] = (),
    max_states: int = _MOST_STATES,
) -> Minima:
    """Find the smallest losing budgets of at most `failures` failures, one number after another.

    Stops at the number at which a search needs more than `max_states` states; `searched` is then
    the number before. `known` are the results for fewer failures, `alike` losses under other rules,
    which are tried first, and in the end those of more failures.
    """
    found = _Found(question, known, max_states, alike)
    searched = known.searched if known else 0
    for number in range(searched + 1, failures + 1):
        found.search_all(number)
        if found.unknown:
            break
        searched = number
    found.replay(found.alike)
    return Minima(
        losing=tuple(found.losing),
        searched=searched,
        states=found.states,
        safe=tuple(_largest(one for one in found.safe if one.shrinks or one.total > searched)),
    )


#: A search of one budget stops early: most losses need fewer states, and safe budgets are searched
#: together.
_FEW_STATES = 250_000


class _Found:
    """What is known about the budgets of a question. unknown: those that need too many states.

    alike: losses under other rules, which may be losses under these, too.
    """

    def __init__(
        self,
        question: Question,
        known: Minima | None,
        max_states: int,
        alike: Iterable[Minimum] = (),
    ) -> None:
        self._question = question
        self.alike = tuple(alike)
        self._max_states = max_states
        self.losing = list(known.losing) if known else []
        self.safe = list(known.safe) if known else []
        self.states = known.states if known else 0
        self.unknown: set[Counts] = set()

    def search_all(self, number: int) -> None:
        """Search the budgets of so many failures: losses of other rules first, then together.

        Without any, each is searched briefly before.
        """
        asked = self.open(number) if self.alike else ()
        self.replay(one for one in self.alike if any(map(one.counts.within, asked)))
        few = 0 if self.alike else min(_FEW_STATES, self._max_states)
        for one in self.open(number) if few else ():
            if one in self.open(number):
                self._search(one, _failures(one), few)
        together = True
        while asked := [one for one in self.open(number) if one not in self.unknown]:
            limits = (together and _joint(asked, self.losing, number)) or asked[0]
            total = _failures(limits) if limits.shrinks else number
            if not self._search(limits, total, self._max_states):
                together = limits == asked[0] and together
                self.unknown |= {limits} & {*asked}

    def replay(self, others: Iterable[Minimum]) -> None:
        """Add the losses under other rules that are losses under these, too."""
        for minimum in others:
            if not any(one.counts.within(minimum.counts) for one in self.losing):
                self.losing += _replayed(self._question, minimum)

    def open(self, number: int) -> list[Counts]:
        """Return the budgets of so many failures of which nothing is known."""
        return [
            one
            for one in budgets(number, self._question)
            if not any(minimum.counts.within(one) for minimum in self.losing)
            and not any(map(one.within, self.safe))
            and not keeps_everything(self._question, one)
        ]

    def _search(self, limits: Counts, total: int, max_states: int) -> bool:
        """Search budgets within limits, of `total` perturbations; whether that has an answer."""
        counts: dict[str, Any] = {kind: n for kind, n in asdict(limits).items() if n < math.inf}
        lagging = limits.shrinks == math.inf
        model = self._question.model(
            budgets=Budgets(**counts, in_all=total, always_lagging=lagging)
        )
        result = search(model, max_states=max_states)
        self.states += result.states
        if result.lost:
            self.losing.append(minimum_of([label for label, _ in result.trace]))
        elif result.complete:
            plain = replace(self._question, replicas=1)
            smaller = [limits] if limits.shrinks else budgets(total, plain)
            self.safe += [one for one in smaller if one.within(limits)]
        return result.lost or result.complete


def undecided(question: Question, result: Minima, *, failures: int) -> list[Counts]:
    """Return the budgets of up to `failures` failures that were not searched to the end."""
    found = _Found(question, result, max_states=0)
    numbers = range(result.searched + 1, failures + 1)
    return [one for number in numbers for one in found.open(number)]


def _replayed(question: Question, minimum: Minimum) -> Iterator[Minimum]:
    """Yield a loss under other rules if these rules have it, too; they decide when acks come."""
    counts: dict[str, Any] = {kind: int(count) for kind, count in asdict(minimum.counts).items()}
    model = question.model(budgets=Budgets(**counts))
    ways: dict[State, list[Label]] = {initial(model): []}
    for wanted in minimum.steps:
        if wanted[0] == "ack":
            continue
        taken: dict[State, list[Label]] = {}
        for state, way in ways.items():
            before, steps = [*way], list(successors(model, state))
            while steps and steps[0][0][0] == "ack":
                ((label, acked),) = steps
                before, steps = [*before, label], list(successors(model, acked))
            for label, after in steps:
                if label == wanted:
                    taken.setdefault(after, [*before, label])
        ways = taken
    losing = next((way for state, way in ways.items() if lost(state)), None)
    if losing:
        yield minimum_of(losing)


def _failures(counts: Counts) -> int:
    """Return the perturbations that are counted: shrinks of any number are not."""
    return int(sum(count for count in counts.each() if count < math.inf))


def _joint(asked: Iterable[Counts], losing: Iterable[Minimum], number: int) -> Counts | None:
    """Return limits for one search of many budgets without lag, none of which is known to lose."""
    plain = [one for one in asked if not one.shrinks]
    if not plain:
        return None
    joint = plain[0]
    for one in plain[1:]:
        wider = joint.most(one)
        allows = any(
            minimum.counts.within(wider) and minimum.counts.total <= number for minimum in losing
        )
        joint = joint if allows else wider
    return joint


def _largest(found: Iterable[Counts]) -> Iterator[Counts]:
    every = list(dict.fromkeys(found))
    for one in every:
        if not any(one.within(other) for other in every if other != one):
            yield one


#: The labels of the adversary's perturbations.
_LABELS = {
    "kill": "kills",
    "lose power": "power_losses",
    "stop": "clean_stops",
    "shrink": "shrinks",
    "cut off": "fencings",
    "move leader": "leader_moves",
    "reassign": "reassignments",
    "cancel": "reassignments",
}


def minimum_of(trace: Sequence[Label]) -> Minimum:
    """Return a trace of the adversary with its perturbations, counted by kind."""
    kinds = [_LABELS[str(label[0])] for label in trace if label[0] in _LABELS]
    return Minimum(
        counts=Counts(**{kind: kinds.count(kind) for kind in set(kinds)}),
        steps=tuple(trace),
    )


def is_current() -> bool:
    """Whether the stored results were searched with the rules of this source."""
    return bool(json.loads(FILE.read_text())["source"] == digest(*_RULES))


def write(results: dict[str, Minima], *, to: Path = FILE) -> None:
    """Store the results; counts of 0 are left out."""
    document = {
        "source": digest(*_RULES),
        "results": {
            key: {
                "losing": [
                    {"budget": _counts(one.counts), "steps": one.steps} for one in result.losing
                ],
                "searched": result.searched,
                "states": result.states,
                "safe": [_counts(one) for one in result.safe],
            }
            for key, result in sorted(results.items())
        },
    }
    to.write_text(json.dumps(document, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def _alike(question: Question, results: dict[str, Minima]) -> list[Minimum]:
    """Return the losses of other rules with as many replicas, the short ones first."""
    sizes = f"/{question.replicas} "
    found = {
        minimum.steps: minimum
        for key, result in results.items()
        if sizes in f"{key} " and key.startswith(f"acks={question.acks} ")
        for minimum in result.losing
    }
    return sorted(found.values(), key=lambda one: (one.counts.total, len(one.steps)))


def _counts(counts: Counts) -> dict[str, int]:
    kinds = asdict(counts).items()
    return {kind: ANY if n == math.inf else int(n) for kind, n in kinds if n}


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--failures", type=int, help="failures in all (as many as are stored)")
    options.add_argument("--only", default="", help="only questions whose key has this text")
    options.add_argument(
        "--states", type=int, default=_MOST_STATES, help="most states of a search (%(default)s)"
    )
    options.add_argument("--to", type=Path, default=FILE, help="the file that gets the results")
    given = options.parse_args()
    before = stored()
    results = dict(before) if is_current() else {}
    with ProcessPoolExecutor() as pool:
        searches: dict[Any, tuple[Question, int]] = {}
        for question in questions():
            key = question.key
            old, known = before.get(key), results.get(key)
            failures = given.failures or (old.searched if old else 3)
            if given.only in key and (known is None or known.searched < failures):
                alike = [*(old.losing if old else ()), *_alike(question, before)]
                search = partial(
                    search_minima,
                    failures=failures,
                    known=known,
                    alike=alike,
                    max_states=given.states,
                )
                searches[pool.submit(search, question)] = (question, failures)
        for done in as_completed(searches):
            (question, failures), result = searches[done], done.result()
            key = question.key
            results[key] = result
            write(results, to=given.to)
            losing = "; ".join(str(one.counts) for one in result.losing) or "nothing"
            _say(f"{key}: up to {result.searched}: {losing} ({result.states} states)")
            for one in undecided(question, result, failures=failures):
                _say(f"  more than {given.states:,} states: {one}")
    refuted = [
        key
        for key, result in results.items()
        for one in result.losing
        if key in before and before[key].excludes(one.counts)
    ]
    for key in refuted:
        _say(f"refuted: {key}")
    return 1 if refuted else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
