"""Parts of Kafka that are not modelled: recognised by their settings, and listed on a page."""

from __future__ import annotations

import pytest

from ackproof.prediction.predict import predict
from ackproof.scenario.model import Scenario
from ackproof.scenario.validation import warnings
from ackproof.scope import SUBJECTS, beyond
from documented import ROOT
from support.run_directories import small


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"remote.storage.enable": True}, ["tiered storage"]),
        ({"remote.storage.enable": "false", "remote.log.manager.thread.pool.size": 2}, []),
        ({"remote.log.storage.system.enable": "true"}, ["tiered storage"]),
        ({"group.share.heartbeat.interval.ms": 5, "share.version": 1}, []),
        ({"share.version": 0, "streams.version": "0"}, []),
        ({"source.cluster.alias": "east"}, ["mirrors"]),
        ({"connector.class": "FileStreamSink", "tasks.max": 1}, ["Kafka Connect"]),
        ({"zookeeper.metadata.migration.enable": "true"}, ["the migration to KRaft"]),
        ({"zookeeper.metadata.migration.enable": "false", "zookeeper.connect": "zk:2181"}, []),
        ({"application.id": "bill", "remote.storage.enable": 1}, ["Kafka Streams"]),
        ({"min.insync.replicas": 2, "acks": "all", "transactional.id": "bill"}, []),
    ],
)
def test_parts_are_recognised_by_their_settings(
    settings: dict[str, object], names: list[str]
) -> None:
    assert [text.partition(":")[0] for _, text in beyond(settings)] == names


def test_the_page_lists_every_part() -> None:
    page = (ROOT / "docs" / "reference" / "scope.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        f"| {one.name} | {', '.join(f'`{key}`' for key in one.examples)} | {one.consequence} |"
        for one in SUBJECTS
    ]


def scenario(**settings: object) -> Scenario:
    cluster = {"settings": {"group.streams.session.timeout.ms": 45000}, "features": {}}
    topics = {"orders": {"settings": settings}}
    return Scenario.model_validate(small(cluster=cluster, topics=topics))


def test_a_scenario_has_a_warning_for_each_part() -> None:
    places = [place for place, text in warnings(scenario(**{"remote.storage.enable": True}))]
    assert places == [
        ("topics", "orders", "settings", "remote.storage.enable"),
        ("cluster", "settings", "group.streams.session.timeout.ms"),
    ]


def test_share_groups_are_in_scope() -> None:
    document = small(cluster={"settings": {"group.share.heartbeat.interval.ms": 3}})
    assert list(warnings(Scenario.model_validate(document))) == []


@pytest.mark.parametrize(("tiered", "lost"), [(True, "possible"), (False, "impossible")])
def test_a_loss_is_not_excluded_with_tiered_storage(tiered: bool, lost: str) -> None:
    record = predict(scenario(**{"remote.storage.enable": tiered}))
    assert record.predicted["lost"] == lost
    assert ("tiered storage" in record.prediction.reasons["lost"]) is tiered
