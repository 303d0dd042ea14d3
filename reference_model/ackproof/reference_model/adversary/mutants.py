"""How much the search is worth: each guard taken away in turn must change an answer.

`ci/mutants` prints one line a guard and the score; it ends with 1 if a guard that is refuted here
no longer is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ackproof.reference_model.adversary.bounds import Budgets, Question
from ackproof.reference_model.adversary.search import Answer, search
from ackproof.reference_model.rules import Rules

_CRASHES = Budgets(power_losses=1, kills=1, shrinks=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A guard of `Rules`, a question whose answer changes without it, and why none does, if so."""

    guard: str
    question: Question = field(default_factory=lambda: Question(kafka_version="4.1.0"))
    survives: str = ""


MUTANTS = (
    Mutant(
        guard="high_watermark_ack",
        question=Question(kafka_version="4.1.0", budgets=Budgets(kills=1)),
    ),
    Mutant(
        # Not by more losses but by a shorter one: 13 steps instead of 14.
        guard="min_isr_precheck",
        question=Question(kafka_version="3.6.2", budgets=Budgets(power_losses=1, shrinks=2)),
    ),
    Mutant(
        guard="hw_freeze",
        question=Question(kafka_version="4.1.0", budgets=Budgets(kills=1, shrinks=2)),
    ),
    Mutant(
        guard="maximal_isr",
        question=Question(kafka_version="4.1.0", budgets=Budgets(kills=1, shrinks=1)),
    ),
    Mutant(
        guard="epoch_start_check",
        question=Question(kafka_version="4.1.0", budgets=Budgets(records=2, kills=2, shrinks=1)),
    ),
    Mutant(
        guard="epoch_truncation",
        question=Question(kafka_version="4.1.0", budgets=Budgets(records=2, fencings=2)),
    ),
    Mutant(
        guard="fetch_epoch_check",
        question=Question(
            kafka_version="4.1.0", min_insync_replicas=1, budgets=Budgets(fencings=1, shrinks=1)
        ),
        survives="each fetch compares the epoch of the follower's last record, in one step; "
        "`before_kraft`, where truncation is a step of its own, breaks without what KIP-320 added, "
        "of which this is a part",
    ),
    Mutant(
        guard="partition_epoch_check",
        question=Question(
            kafka_version="4.1.0",
            min_insync_replicas=3,
            budgets=Budgets(power_losses=1, shrinks=1, fencings=1),
        ),
    ),
    Mutant(
        guard="leader_epoch_check",
        question=Question(kafka_version="4.1.0", budgets=Budgets(fencings=1, shrinks=1)),
    ),
    Mutant(
        guard="broker_epoch_check",
        question=Question(kafka_version="4.1.0", budgets=Budgets(power_losses=2)),
    ),
    Mutant(
        guard="unclean_registration",
        question=Question(kafka_version="4.1.0", min_insync_replicas=3, budgets=_CRASHES),
    ),
    Mutant(
        guard="isr_election",
        question=Question(kafka_version="4.1.0", budgets=Budgets(kills=1, shrinks=1)),
    ),
)


def answers(mutant: Mutant) -> tuple[Answer, Answer]:
    """Return what is found under Kafka's rules, and without the guard."""
    broken = replace(mutant.question, rules=replace(Rules(), **{mutant.guard: False}))
    return search(mutant.question), search(broken)


def refuted(whole: Answer, broken: Answer) -> bool:
    """Whether a mutant is told from Kafka: by a loss where there was none, or by a shorter one."""
    return broken.lost and (whole.impossible or len(broken.trace) < len(whole.trace))


def report() -> Iterator[tuple[str, bool]]:
    """Yield a line for each guard, and whether it is as `MUTANTS` says."""
    killed = 0
    for mutant in MUTANTS:
        whole, broken = answers(mutant)
        found = refuted(whole, broken)
        killed += found
        if found:
            before = f"{len(whole.trace)} steps" if whole.lost else "no loss"
            what = f"refuted: a loss in {len(broken.trace)} steps ({before} with it)"
        else:
            what = f"survives: {mutant.survives or 'NOT EXPLAINED'}"
        yield f"{mutant.guard + ':':24}{what}", found != bool(mutant.survives)
    yield f"score: {killed} of {len(MUTANTS)} guards", True


if __name__ == "__main__":
    as_expected = True
    for line, expected in report():
        sys.stdout.write(line + "\n")
        as_expected &= expected
    sys.exit(not as_expected)
