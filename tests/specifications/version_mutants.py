"""Each rule that depends on Kafka's version, reversed: a search must detect it.

All other rules of the version stay, so only this rule changes the result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from ackproof_model import Profile
from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.configuration import Truncation
from ackproof_model.consumer_groups import OffsetBudgets, OffsetModel
from ackproof_model.transactions import TransactionBudgets, TransactionModel
from specifications.mutation_score import Model, Mutant

_OF = Profile.of


@contextlib.contextmanager
def with_rule(rule: str, value: object) -> Iterator[None]:
    """Change one rule of every version's profile."""
    with pytest.MonkeyPatch.context() as patch:
        changed = staticmethod(lambda version: replace(_OF(version), **{rule: value}))
        patch.setattr(Profile, "of", changed)
        yield


def _mutant(rule: str, value: object, model: Model, anomaly: str = "a loss") -> Mutant:
    return Mutant(
        guard=f"{rule} of {model.kafka_version}",
        model=model,
        without=partial(with_rule, rule, value),
        anomaly=anomaly,
    )


def _replication(version: str, **budgets: int) -> AdversaryModel:
    return AdversaryModel(kafka_version=version, budgets=Budgets(**budgets))


MUTANTS = (
    _mutant("truncation", Truncation.HIGH_WATERMARK, _replication("0.11.0.3", kills=2)),
    _mutant("fetch_fencing", False, _replication("2.1.0", records=2, fencings=3)),
    _mutant("failover_keeps_isr", True, _replication("2.6.2", power_losses=2)),
    _mutant("alter_partition", False, _replication("2.8.1", power_losses=1, shrinks=2)),
    _mutant("shrink_bumps_epoch", False, _replication("3.4.1", power_losses=1, kills=1)),
    _mutant("broker_epochs", False, _replication("3.6.2", power_losses=2)),
    _mutant("hw_freeze", False, _replication("4.1.0", kills=1, shrinks=2)),
    _mutant("elr", False, _replication("4.1.0", power_losses=1, shrinks=2)),
    _mutant("fenced_last_known", True, _replication("4.1.0", power_losses=1, kills=1, shrinks=1)),
    _mutant(
        "verifies_transactions",
        False,
        TransactionModel(kafka_version="3.6.2", budgets=TransactionBudgets(delays=1)),
        "hanging",
    ),
    _mutant(
        "strict_markers",
        False,
        TransactionModel(
            kafka_version="4.2.0", protocol=2, budgets=TransactionBudgets(marker_delays=1)
        ),
        "aborted-read",
    ),
    _mutant(
        "skips_markers",
        True,
        TransactionModel(kafka_version="4.2.1", budgets=TransactionBudgets(outages=1)),
        "hanging",
    ),
    _mutant(
        "group_fencing",
        False,
        OffsetModel(
            kafka_version="2.5.0", commit="transaction", budgets=OffsetBudgets(rebalances=1)
        ),
        "reprocessed",
    ),
    _mutant(
        "clients_truncate",
        False,
        OffsetModel(kafka_version="2.4.1", commit="after", budgets=OffsetBudgets(log_losses=1)),
        "unprocessed",
    ),
)

#: Rules that no search detects, and the tests that do.
ELSEWHERE = {
    "epoch_start": "the guard epoch_start_check is the same rule",
    "zookeeper": "test_rules_by_version: leaders, ISR and controlled shutdown",
    "stale_fetch": "not a rule: the worst case calls the effect of late responses possible",
    "directory_drops_elr": "not a rule: the worst case calls a loss by a new directory possible",
    "completes_with_all": "adversary/test_moves: two moves lose records of 4.3.1, and not of 4.1.2",
    "smaller_completes_with_all": "conformance: Kafka's own reassignments of each version",
    "unclean_by_default": "test_rules_by_version: the defaults of each version",
    "unclean_by_setting": "prediction/test_effects: elections by the setting and by request",
    "short_timers": "test_rules_by_version: the defaults of each version",
    "transactions": "test_known_results: a version before 0.11 is refused",
    "transactions_v2": "test_known_results: protocol 2 is refused before 4.0",
    "double_bump": "test_claims: the error code of B16 in 4.0.0",
    "first_sequence_zero": "conformance/log_cases: Kafka's own log of each version",
    "acks_truncated_commits": "prediction/test_clients: B59, on versions around it",
    "share_groups": "audit/test_effects: a version before 4.2 has no risk of theirs",
    "added_share_partitions_from_begin": "agreement/test_share_groups: B37 on 4.3.1 and 4.4.0",
    "share_start_only_moves_on": "conformance/share_cases: Kafka's own coordinator of each version",
}
