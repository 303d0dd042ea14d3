"""A late fetch response crosses a change of the leader (KAFKA-18991, KAFKA-18723)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision, together
from ackproof.audit.setups import UNCLEAN, Setup
from ackproof.own_config.configuration import Given, NoFile

#: With slow fetches, each of these ends a leader epoch.
_CHANGES_LEADER = (
    Failure.CRASH,
    Failure.CLEAN_RESTART,
    Failure.LEADER_MOVE,
    Failure.REASSIGNMENT,
    Failure.LOST_SESSION,
)

KIND = Kind(
    title="a late fetch response crosses a change of the leader",
    subject=Subject.LOSSES,
    by_brokers=True,
    rare=True,
    texts={
        Effect.LOST: Text(
            case="B12",
            text="a fetch response that is late and crosses a change of the leader makes a "
            "follower drop committed records; rare (KAFKA-18991, KAFKA-18723)",
            at_risk="the last records that were acked before the leader changed",
            trace=(
                "A follower fetches slowly, and a response is on its way.",
                "Another replica becomes leader, and the follower learns of the new epoch.",
                "The late response arrives; the follower applies it in the new epoch, and drops or "
                "replaces committed records.",
                "That follower is elected later: these records are lost.",
            ),
        )
    },
    failures=(Failure.LAG, *_CHANGES_LEADER),
    removed_by={"kafka.version": "3.9.1, or 4.0.1 and later"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    partition = setup.partition
    if not partition.profile.stale_fetch or partition.replication_factor == 1:
        return
    given = setup.own.kafka or Given(partition.kafka_version, NoFile.UNSTATED)
    [(setting, change)] = KIND.removed_by.items()
    upgrade = decision(setting, given, change, "an upgrade")
    unread = not partition.profile.unclean_by_setting and not setup.zookeeper
    if unread and partition.unclean_leader_election:  # the newer version reads it
        others = ((UNCLEAN, "false"),)
        cost = f"an upgrade, and {together(others)}: KRaft reads it from 3.9 on"
        upgrade = replace(upgrade, cost=cost, together_with=together(others), others=others)
    for failure in _CHANGES_LEADER:
        yield KIND.risk(setup, (Failure.LAG, failure), decided_by=[upgrade])
