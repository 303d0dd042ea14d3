"""Each guard of replication and election taken away: a loss must become possible, or nearer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ackproof_model.adversary.search import search
from ackproof_model.adversary.state import AdversaryModel, Budgets
from specifications.mutation_score import Mutation
from specifications.wrong_rules import without

_CRASHES = Budgets(power_losses=1, kills=1, shrinks=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A check, a model whose result changes without it; `survives`: why no result changes."""

    guard: str
    model: AdversaryModel = field(default_factory=lambda: AdversaryModel(kafka_version="4.1.0"))
    survives: str = ""


MUTANTS = (
    Mutant(
        guard="high_watermark_ack",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1)),
    ),
    Mutant(
        # Not by more losses but by a shorter one: 13 steps instead of 14.
        guard="min_isr_precheck",
        model=AdversaryModel(kafka_version="3.6.2", budgets=Budgets(power_losses=1, shrinks=2)),
    ),
    Mutant(
        guard="hw_freeze",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1, shrinks=2)),
    ),
    Mutant(
        guard="maximal_isr",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1, shrinks=1)),
    ),
    Mutant(
        guard="epoch_start_check",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=2, kills=2, shrinks=1)),
    ),
    Mutant(
        guard="epoch_truncation",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=2, fencings=2)),
    ),
    Mutant(
        guard="fetch_epoch_check",
        # Where truncation is a step of its own; from 2.7 each fetch compares the epoch of the
        # follower's last record, too.
        model=AdversaryModel(kafka_version="2.6.2", budgets=Budgets(records=2, fencings=3)),
    ),
    Mutant(
        guard="partition_epoch_check",
        model=AdversaryModel(
            kafka_version="4.1.0",
            min_insync_replicas=3,
            budgets=Budgets(power_losses=1, shrinks=1, fencings=1),
        ),
    ),
    Mutant(
        guard="leader_epoch_check",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(fencings=1, shrinks=1)),
    ),
    Mutant(
        guard="broker_epoch_check",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(power_losses=2)),
    ),
    Mutant(
        guard="unclean_registration",
        model=AdversaryModel(kafka_version="4.1.0", min_insync_replicas=3, budgets=_CRASHES),
    ),
    Mutant(
        guard="isr_election",
        model=AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1, shrinks=1)),
    ),
)


def mutation(mutant: Mutant) -> Mutation:
    """Return what is found under Kafka's rules, and without the guard."""
    found = search(mutant.model)
    with without(mutant.guard):
        broken = search(replace(mutant.model))
    return Mutation(
        guard=mutant.guard,
        anomaly="a loss",
        steps=len(broken.trace) if broken.lost else None,
        before=None if found.impossible else len(found.trace),
        survives=mutant.survives,
    )


def mutations() -> Iterator[Mutation]:
    """Yield what is found for each guard."""
    return map(mutation, MUTANTS)
