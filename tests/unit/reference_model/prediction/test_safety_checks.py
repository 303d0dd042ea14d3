"""Take away one guard at a time: the predictions must change, or the bounds do not test it."""

from __future__ import annotations

import pytest

from ackproof_model import Likelihood, predict
from specifications.wrong_rules import without
from unit.reference_model.schedules import (
    CUT,
    DEMO,
    FOLLOWER_THEN_LEADER,
    KILL_LEADER,
    TWO_LEADERS,
    isr,
    kill,
)

IDEMPOTENT = {"idempotence": True}
ONE_AT_A_TIME = {"max_in_flight": 1, "retries": 0}
TWO_REPLICAS = {"replication_factor": 2, "min_insync_replicas": 1, "max_in_flight": 1}
QUICK_TWO_LEADERS = (kill(), kill())
CUT_UNTIL_ALONE = (CUT, kill(when=(isr(1),)))


@pytest.mark.parametrize(
    ("guards", "settings", "schedule", "anomaly"),
    [
        (["high_watermark_ack"], IDEMPOTENT, DEMO, "lost"),
        (["maximal_isr"], TWO_REPLICAS, FOLLOWER_THEN_LEADER, "lost"),
        (["isr_election"], TWO_REPLICAS | {"kafka_version": "3.9.1"}, QUICK_TWO_LEADERS, "lost"),
        (["epoch_truncation"], ONE_AT_A_TIME, TWO_LEADERS, "lost"),
        (["min_isr_precheck", "hw_freeze"], ONE_AT_A_TIME, CUT_UNTIL_ALONE, "lost"),
        (["idempotent_dedup"], IDEMPOTENT, KILL_LEADER, "duplicated"),
        (["sequence_check"], IDEMPOTENT, KILL_LEADER, "reordered"),
        (["retry_order"], {"max_in_flight": 1}, KILL_LEADER, "reordered"),
    ],
)
def test_without_its_guard_the_impossible_happens(configure, guards, settings, schedule, anomaly):
    configuration = configure(**settings)
    assert predict(configuration, schedule).likelihood[anomaly] == Likelihood.IMPOSSIBLE
    with without(*guards):
        broken = predict(configuration, schedule)
    assert broken.likelihood[anomaly] != Likelihood.IMPOSSIBLE
    assert broken.complete


@pytest.mark.parametrize(
    "guard",
    [
        # Either keeps acks=all from a lone leader where the other is missing.
        "min_isr_precheck",
        "hw_freeze",
        # It takes three faults: a replica outside the ISR, an epoch that begins with records no
        # follower is known to have, and one more death.
        "epoch_start_check",
        # The epoch of the last record is compared anyway.
        "fetch_epoch_check",
        # It takes a change of the ISR that the controller makes while the leader makes another.
        "partition_epoch_check",
    ],
)
@pytest.mark.parametrize("schedule", [DEMO, KILL_LEADER, TWO_LEADERS])
def test_these_bounds_say_nothing_about(configure, guard, schedule):
    # Should one of these fail, the bounds have become better: move the guard up.
    whole = predict(configure(**IDEMPOTENT), schedule)
    with without(guard):
        broken = predict(configure(**IDEMPOTENT), schedule)
    assert broken.likelihood == whole.likelihood
