"""A weaker setting never makes an answer better: it removes no loss, and no loss becomes rarer."""

from __future__ import annotations

from itertools import product

import pytest

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.auditing import answered, loses_more
from ackproof.audit.changes import best
from ackproof.audit.failure import covers
from ackproof.audit.setups import Setup, setups
from ackproof.own_config.configuration import Client, Given, OwnConfig, Topic
from support.origins import at

#: Versions that differ in their rules of elections, fetches and truncation, with their modes.
VERSIONS = (
    ("2.3.1", "zookeeper"),
    ("2.8.1", "zookeeper"),
    ("3.5.2", "kraft"),
    ("3.5.2", "zookeeper"),
    ("3.8.1", "kraft"),
    ("3.9.0", "kraft"),
    ("3.9.0", "zookeeper"),
    ("3.9.1", "kraft"),
    ("4.0.0", "kraft"),
    ("4.1.1", "kraft"),
)


def setup(
    kafka: str, mode: str, *, replicas: int, minimum: int, acks: str = "all", unclean: bool = False
) -> Setup:
    settings = {
        "min.insync.replicas": str(minimum),
        "unclean.leader.election.enable": str(unclean).lower(),
    }
    producer = {"acks": acks, "enable.idempotence": str(acks == "all").lower()}
    own = OwnConfig(
        kafka=Given(kafka, at("compose.yml:1")),
        mode=Given(mode, at("compose.yml:2")),
        topics=(
            Topic(
                name="orders",
                replication_factor=Given(str(replicas), at("topic:1")),
                settings={key: Given(value, at("topic:2")) for key, value in settings.items()},
            ),
        ),
        producers=(
            Client(
                name="p",
                library="java",
                settings={key: Given(value, at("p:1")) for key, value in producer.items()},
            ),
        ),
    )
    [[only]] = setups(own)
    return only


def losses(one: Setup) -> list[Risk]:
    return [risk for risk in answered([one]).of(0) if risk.effect is Effect.LOST]


def lost_without(weaker: Setup, stronger: Setup) -> list[str]:
    """Return the sets of failures that lose under the stronger settings only."""
    weak = losses(weaker)
    return [
        "+".join(risk.failures)
        for risk in losses(stronger)
        if not any(covers(one.failures, risk.failures) for one in weak)
    ]


@pytest.mark.parametrize(("kafka", "mode"), VERSIONS)
def test_unclean_elections_remove_no_loss(kafka: str, mode: str) -> None:
    """With as many in-sync replicas as replicas, each replica has every acked record.

    Then an unclean election helps if the last member of the ISR loses its log.
    """
    for replicas, acks in product((1, 2, 3), ("all", "1")):
        for minimum in range(1, replicas + 1):
            clean = setup(kafka, mode, replicas=replicas, minimum=minimum, acks=acks)
            unclean = setup(
                kafka, mode, replicas=replicas, minimum=minimum, acks=acks, unclean=True
            )
            helped = {"lag+power_loss", "lag+disk_replaced"} if minimum == replicas else set()
            assert helped.issuperset(lost_without(unclean, clean)), (replicas, minimum, acks)


def test_clean_elections_lose_what_an_unclean_one_keeps() -> None:
    clean, unclean = (
        setup("3.9.1", "kraft", replicas=2, minimum=2, unclean=unclean) for unclean in (False, True)
    )
    assert lost_without(unclean, clean) == ["lag+power_loss", "lag+disk_replaced"]


@pytest.mark.parametrize("kafka", ["3.9.0", "4.0.0"])
def test_a_proposed_change_lets_no_further_failures_lose(kafka: str) -> None:
    """Clean elections alone would: so they come after eligible leader replicas."""
    before = setup(kafka, "kraft", replicas=2, minimum=2, unclean=True)
    steps = [*best([before], loses_more=loses_more)]
    assert [change.setting for change, _ in steps] == [
        "kafka.version" if kafka == "3.9.0" else "eligible.leader.replicas.version",
        "unclean.leader.election.enable",
    ]
    for _, [after] in steps:
        assert not lost_without(before, after)
        before = after


def test_clean_elections_are_proposed_first_where_they_only_help() -> None:
    [(change, _), *_] = best(
        [setup("2.8.1", "zookeeper", replicas=3, minimum=2, unclean=True)], loses_more=loses_more
    )
    assert change.setting == "unclean.leader.election.enable"
