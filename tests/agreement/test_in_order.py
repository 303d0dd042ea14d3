"""The search that keeps the order of faults allows what the exact search finds, and tells twins."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackproof.prediction.exact import in_order
from ackproof.prediction.predict import partitions_of
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof_model import Configuration, Injection, Role
from ackproof_model.effects import Cuts, Elects, Ends, Stalls
from ackproof_model.worst_case.in_order import search, unsupported
from agreement.sampling import FULL, sample
from agreement.schedules import Searches

CATALOGUE = Path(__file__).parents[2] / "scenarios" / "catalogue"
MISSED, REMOVED = "b56-missed-leader-epoch.yaml", "b57-removed-eligible-replica.yaml"


def schedules(scenario: Scenario) -> Iterator[tuple[Configuration, tuple[Injection, ...]]]:
    for partition in partitions_of(scenario):
        for schedule in in_order(scenario, partition):
            if not unsupported(partition.configuration, schedule):
                yield partition.configuration, schedule


EFFECTS = (
    Ends(),
    Ends(log="prefix"),
    Ends(log="empty"),
    Ends(clean=True),
    Stalls(),
    Elects(topic="orders", partition=0, unclean=False),
    Cuts(channels=("controllers",)),
    Cuts(channels=("replication",)),
)
TARGETS: tuple[Role | int, ...] = (Role.LEADER, 0)


def pairs() -> Iterator[tuple[Configuration, tuple[Injection, ...]]]:
    """Yield every two faults, the second while the first is in force, and after it is healed."""
    faults = list(itertools.product(EFFECTS, TARGETS))
    for version, replicas, times in itertools.product(("4.4.0", "3.9.2"), (1, 2, 3), (None, 20.0)):
        configuration = Configuration(
            kafka_version=version,
            acks="all",
            idempotence=True,
            retries=100,
            max_in_flight=5,
            replication_factor=replicas,
            min_insync_replicas=1,
        )
        for two in itertools.product(faults, repeat=2):
            yield (
                configuration,
                tuple(
                    Injection(
                        fault="any",
                        effects=(effect,),
                        targets=frozenset({target}),
                        or_after=20.0,
                        heal_or_after=times,
                    )
                    for effect, target in two
                ),
            )


def of_catalogue() -> Iterator[tuple[Configuration, tuple[Injection, ...]]]:
    for file in ("b05-sole-replica-loses-power", "b06-last-replica-standing", "b34-wiped-disk"):
        for arm in load(CATALOGUE / f"{file}.yaml"):
            yield from schedules(arm.scenario)


def test_a_loss_that_the_exact_search_finds_is_found_in_order() -> None:
    searches, compared, forgotten = Searches(10_000 if FULL else 3_000), 0, []
    for configuration, schedule in [*of_catalogue(), *sample(list(pairs()), every=97)]:
        exact = not unsupported(configuration, schedule)
        if exact and "lost" in searches.anomalies(configuration, schedule):
            found = search(configuration, schedule, max_states=50_000)
            compared += 1
            if found.complete and not found.lost:
                forgotten.append(f"{configuration}, {schedule}")
    sys.stdout.write(f"{compared} losses of the exact search, {len(forgotten)} not in order\n")
    assert not forgotten, "\n".join(forgotten)
    assert compared > 5


@pytest.mark.parametrize(
    ("file", "arm", "lost"),
    [
        (MISSED, "the next leader ends", True),
        (MISSED, "the next leader ends, metadata in time", False),
        *(
            [
                (MISSED, "both elections are planned", True),
                (MISSED, "both elections are planned, metadata in time", False),
                (REMOVED, "the empty log leads", True),
                (REMOVED, "the new leader is shut down", True),
                (REMOVED, "the new leader loses its session", True),
                (REMOVED, "the new leader loses power", True),
                (REMOVED, "its log is copied first", False),
                (REMOVED, "another replica is in sync before 4 ends", False),
                # Records that one follower lacks are lost if it is the one that is elected.
                (REMOVED, "no leader, and one is elected by hand", True),
            ]
            if FULL
            else []
        ),
    ],
)
def test_a_case_may_lose_and_its_twin_does_not(file: str, arm: str, lost: bool) -> None:
    """The full form also tries a second record."""
    scenario = next(one.scenario for one in load(CATALOGUE / file) if one.name == arm)
    ((configuration, schedule),) = schedules(scenario)
    for records in (1, 2) if FULL and file == MISSED else (1,):
        found = search(configuration, schedule, max_states=2_000_000, records=records)
        assert found.complete
        assert found.lost is lost
