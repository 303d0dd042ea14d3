"""Each guard of replication and election removed: a loss must become possible, or nearer."""

from __future__ import annotations

from functools import partial

from ackproof_model.adversary import AdversaryModel, Budgets
from specifications.mutation_score import Mutant
from specifications.wrong_rules import without


def _model(version: str = "4.1.0", minimum: int = 2, **budgets: int) -> AdversaryModel:
    return AdversaryModel(
        kafka_version=version, min_insync_replicas=minimum, budgets=Budgets(**budgets)
    )


MUTANTS = tuple(
    Mutant(guard=guard, model=model, without=partial(without, guard))
    for guard, model in {
        "high_watermark_ack": _model(kills=1),
        # The loss is possible with the guard, too, but takes 14 steps instead of 13.
        "min_isr_precheck": _model("3.6.2", power_losses=1, shrinks=2),
        "hw_freeze": _model(kills=1, shrinks=2),
        "maximal_isr": _model(kills=1, shrinks=1),
        "epoch_start_check": _model(records=2, kills=2, shrinks=1),
        "epoch_truncation": _model(records=2, fencings=2),
        # From 2.7 each fetch compares the epoch of the follower's last record, too.
        "fetch_epoch_check": _model("2.6.2", records=2, fencings=3),
        "partition_epoch_check": _model(minimum=3, power_losses=1, shrinks=1, fencings=1),
        "leader_epoch_check": _model(fencings=1, shrinks=1),
        "broker_epoch_check": _model(power_losses=2),
        "unclean_registration": _model(minimum=3, power_losses=1, kills=1, shrinks=1),
        "isr_election": _model(kills=1, shrinks=1),
    }.items()
)
