"""Each rule that came or went with a Kafka version, switched over: a search must tell.

The version keeps all its other rules, so that what changes comes of this one alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ackproof_model import Profile
from ackproof_model.adversary.search import search
from ackproof_model.adversary.state import AdversaryModel, Budgets
from ackproof_model.configuration import Truncation
from specifications.mutation_score import Mutation


@dataclass(frozen=True, kw_only=True)
class OtherRule(AdversaryModel):
    """A version, but for one rule of its profile."""

    rules: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def profile(self) -> Profile:
        return replace(Profile.of(self.kafka_version), **self.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A version whose rule is another one's; `slow`: the searches take a minute and more."""

    rule: str
    value: object
    version: str
    budgets: Budgets
    slow: bool = False

    def __str__(self) -> str:
        return f"{self.rule} of {self.version}"


MUTANTS = (
    Mutant(
        rule="truncation",
        value=Truncation.HIGH_WATERMARK,
        version="0.11.0.3",
        budgets=Budgets(kills=2),
    ),
    Mutant(
        rule="fetch_fencing",
        value=False,
        version="2.1.0",
        budgets=Budgets(records=2, fencings=3),
        slow=True,
    ),
    Mutant(rule="failover_keeps_isr", value=True, version="2.6.2", budgets=Budgets(power_losses=2)),
    Mutant(
        rule="alter_partition",
        value=False,
        version="2.8.1",
        budgets=Budgets(power_losses=1, shrinks=2),
    ),
    Mutant(
        rule="shrink_bumps_epoch",
        value=False,
        version="3.5.0",
        budgets=Budgets(power_losses=1, shrinks=2),
    ),
    Mutant(rule="broker_epochs", value=False, version="3.6.2", budgets=Budgets(power_losses=2)),
    Mutant(rule="hw_freeze", value=False, version="4.1.0", budgets=Budgets(kills=1, shrinks=2)),
    Mutant(rule="elr", value=False, version="4.1.0", budgets=Budgets(power_losses=1, shrinks=2)),
    Mutant(
        rule="fenced_last_known",
        value=True,
        version="4.1.0",
        budgets=Budgets(power_losses=1, kills=1, shrinks=1),
        slow=True,
    ),
)

#: Rules of replication that no search of the adversary tells, and what does.
ELSEWHERE = {
    "epoch_start": "the guard epoch_start_check is the same rule",
    "zookeeper": "test_rules_by_version: who may lead, who stays in the ISR, who hands over",
    "stale_fetch": "no rule, but a word: what late responses may do is called possible",
    "unclean_by_default": "test_rules_by_version: the defaults of each version",
    "short_timers": "test_rules_by_version: the defaults of each version",
}


def mutation(mutant: Mutant) -> Mutation:
    """Return what is found under the version's rules, and with the other one."""
    real = search(AdversaryModel(kafka_version=mutant.version, budgets=mutant.budgets))
    changed = OtherRule(
        kafka_version=mutant.version,
        budgets=mutant.budgets,
        rules={mutant.rule: mutant.value},
    )
    other = search(changed)
    return Mutation(
        guard=str(mutant),
        anomaly="a loss",
        steps=len(other.trace) if other.lost else None,
        before=None if real.impossible else len(real.trace),
    )


def mutations() -> Iterator[Mutation]:
    """Yield what is found for each rule."""
    return map(mutation, MUTANTS)
