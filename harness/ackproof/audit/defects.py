"""Losses that no search covers: by known defects of brokers and clients, and by an argument."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ackproof.audit.answer import Effect, Failure, Failures, Risk
from ackproof.audit.cases import by_unclean_election
from ackproof.audit.effective import of_topic
from ackproof.audit.risk import decision, risk, worded
from ackproof.audit.setups import UNCLEAN, Setup
from ackproof.audit.words import covers
from ackproof.own_config.configuration import Given, NoFile
from ackproof.scenario.librdkafka import DEFECTS

#: With slow fetches, each of these ends a leader epoch.
_CHANGES_LEADER = (
    Failure.CRASH,
    Failure.CLEAN_RESTART,
    Failure.LEADER_MOVE,
    Failure.LOST_SESSION,
)
_FIXED = "3.9.1, or 4.0.1 and later"


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the losses by unclean elections, and by the defects of brokers and producer."""
    partition = setup.partition
    if partition.unclean_election and not partition.profile.elr:
        yield from _by_unclean_election(setup)
    elif partition.profile.stale_fetch and partition.replication_factor > 1:
        for failure in _CHANGES_LEADER:
            yield _stale_fetch(setup, (Failure.LAG, failure))
    yield from _of_librdkafka(setup)


def _by_unclean_election(setup: Setup) -> Iterator[Risk]:
    """Yield the loss of what only the last replica in the ISR had, without a search."""
    if setup.partition.min_insync_replicas >= setup.partition.replication_factor:
        return  # every replica has each acked record
    given = of_topic(setup, UNCLEAN)
    for failure in (Failure.CRASH, Failure.CLEAN_RESTART, Failure.LOST_SESSION):
        yield worded(
            setup,
            Effect.LOST,
            (Failure.LAG, failure),
            "unclean-election",
            case=by_unclean_election(setup),
            decided_by=[
                decision(
                    UNCLEAN,
                    given,
                    "false",
                    "while all replicas that were in the ISR are down, the partition can neither "
                    "be written nor read",
                )
            ],
        )


def _stale_fetch(setup: Setup, failures: Failures) -> Risk:
    given = setup.own.kafka or Given(setup.partition.kafka_version, NoFile.UNSTATED)
    upgrade = decision("kafka.version", given, _FIXED, "an upgrade")
    return worded(setup, Effect.LOST, failures, "stale-fetch", decided_by=[upgrade])


def _of_librdkafka(setup: Setup) -> Iterator[Risk]:
    producer = setup.producer
    if producer is None or producer.library != "librdkafka" or producer.version is None:
        return
    for defect in DEFECTS:
        given = producer.settings.get(defect.setting)
        used = given is not None and given.value.lower() != "false"
        if used and defect.is_in(producer.version.value):
            yield risk(
                setup,
                Effect.LOST,
                tuple(map(Failure, defect.failures)),
                str(defect),
                case=defect.case,
                at_risk="records in flight at that moment",
                trace=[f"{defect.text[0].upper()}{defect.text[1:]}."],
                decided_by=[
                    decision("librdkafka", producer.version, defect.fixed_version, "an upgrade")
                ],
            )


@cache
def survived(survives: tuple[Failures, ...], lost: tuple[Failures, ...]) -> tuple[Failures, ...]:
    """Return the largest sets of failures within `survives` that contain none of `lost`."""
    if not lost:
        return survives
    kept: dict[Failures, None] = {}
    left = list(survives)
    while left:
        failures = left.pop(0)
        if any(covers(one, failures) for one in lost):
            left += [failures[:at] + failures[at + 1 :] for at in range(len(failures))]
        elif failures:
            kept[failures] = None
    return tuple(
        one for one in kept if not any(one != other and covers(one, other) for other in kept)
    )
