"""Kafka's guards of replication and election, each with the rule that a wrong Kafka would have."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from ackproof_model.kafka.partition_change import Election
from ackproof_model.prediction import producer, reduction
from ackproof_model.prediction.model import Model
from ackproof_model.replication import controller, isr, leader, log_truncation
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import NOBODY, Controller

Rule = Callable[..., Any]


def never(*_: object, **__: object) -> bool:
    return False


def always(*_: object, **__: object) -> bool:
    return True


def _watermark_of_committed_isr(*given: Any, isr: int, maximal: int, **others: Any) -> int:
    return _WATERMARK(*given, isr=isr, maximal=isr, **others)


def _nothing_truncated(
    profile: object, ahead: object, follower: tuple[int, ...], **_: object
) -> int:
    return len(follower)


def _elects_anyone(
    policy: Policy,
    before: Controller,
    target_isr: int,
    *,
    unclean: int = 0,
    election: Election | None = None,
) -> Controller:
    """Add a replica that runs to the ISR, the leader first."""
    candidates = [r for r in (before.leader, *range(policy.replicas)) if r != NOBODY]
    target_isr |= next((1 << r for r in candidates if isr.active(before, r)), 0)
    return _CHANGE(policy, before, target_isr, unclean=unclean, election=election)


_WATERMARK: Rule = leader.advanced_high_watermark
_CHANGE: Rule = controller.change

#: By guard: the rules that have it, each with the rule that a Kafka without the guard would have.
WRONG: dict[str, dict[Rule, Rule]] = {
    # acks=all is answered once the high watermark has passed the record.
    "high_watermark_ack": {leader.committed: always},
    # acks=all is refused while |ISR| < min.insync.replicas (`appendRecordsToLeader`).
    "min_isr_precheck": {leader.enough_in_sync: always},
    # The high watermark stands still below the minimum ISR (KAFKA-15583).
    "hw_freeze": {},
    # The high watermark waits for a replica that is being added to the ISR (KIP-497).
    "maximal_isr": {leader.advanced_high_watermark: _watermark_of_committed_isr},
    # A replica joins only once it has reached the epoch's start offset (KAFKA-7128).
    "epoch_start_check": {isr.waits_for_epoch_start: never},
    # A follower truncates what diverges from its leader (KIP-101, KIP-279, KIP-595).
    "epoch_truncation": {log_truncation.kept_end: _nothing_truncated},
    # A fetch under another leader epoch is refused (KIP-320).
    "fetch_epoch_check": {leader.fences_fetch: never},
    # An AlterPartition under an old partition epoch is refused (KIP-497).
    "partition_epoch_check": {
        controller.alter_partition_accepted: lambda state, number, epoch, *, current: (
            (state.leader, state.epoch) == (number, epoch)
        )
    },
    # An AlterPartition of an older leader epoch is refused (KIP-497).
    "leader_epoch_check": {
        controller.alter_partition_accepted: lambda state, number, epoch, *, current: current
    },
    # A replica that started anew since its last fetch is not taken into the ISR (KIP-903).
    "broker_epoch_check": {isr.joins_as_old_incarnation: never},
    # A replica that registers after an unclean stop leaves ISR and ELR (KIP-966).
    "unclean_registration": {controller.enrol: lambda policy, before, replica, *, clean: before},
    # Only a replica in the ISR (or ELR) is elected (`PartitionChangeBuilder.electLeader`).
    "isr_election": {controller.change: _elects_anyone},
}
#: The same for the producer, which the adversary does not have.
OF_PRODUCER: dict[str, dict[Rule, Rule]] = {
    # A sequence number already in the log is not appended again (KIP-98).
    "idempotent_dedup": {producer._is_duplicate: never},
    # An idempotent record is refused while one before it is missing (KIP-98).
    "sequence_check": {producer._gap: never},
    # A record that is retried goes out before those never sent.
    "retry_order": {producer._awaits_retries: never},
}


@contextlib.contextmanager
def without(*guards: str) -> Iterator[None]:
    """Replace the rules of these guards in every module that uses them."""
    with pytest.MonkeyPatch.context() as patch:
        # The reductions of the search argue with the guards.
        replace_rule(patch, reduction._deposed_for_good, never)
        for guard in guards:
            if guard == "hw_freeze":
                patch.setattr(Policy, "freeze", False)
            if guard == "epoch_truncation":
                patch.setattr(Model, "reduces", never)
            for rule, wrong in (WRONG | OF_PRODUCER)[guard].items():
                replace_rule(patch, rule, wrong)
        yield


@contextlib.contextmanager
def with_wrong(rules: Iterable[tuple[object, str, object]]) -> Iterator[None]:
    """Replace rules, each given by its owner (a module or class) and its name."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, wrong in rules:
            rule = getattr(owner, name)
            if isinstance(owner, type):
                patch.setattr(owner, name, wrong)
            else:
                replace_rule(patch, rule, wrong)
        yield


def replace_rule(patch: pytest.MonkeyPatch, rule: Rule, wrong: Rule) -> None:
    """Replace a function of the model wherever it was imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ackproof_model"):
            for attribute, value in list(vars(module).items()):
                if value is rule:
                    patch.setattr(module, attribute, wrong)
