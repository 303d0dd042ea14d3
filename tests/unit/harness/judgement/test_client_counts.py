"""What clients did that is no anomaly: which producers stopped, who fetched from followers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackproof.errors import RunDirectoryError
from ackproof.judgement.client_counts import client_counts
from ackproof.runs.directory import write_table
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import CONSUMER_EVENTS
from small_scenario import scenario

AT = datetime(2026, 1, 1, tzinfo=UTC)


def run_of(folder: Path, *ends: dict[str, str] | None) -> Path:
    """Return a run whose producers have left these files; None: no file."""
    clients = folder / "clients"
    clients.mkdir()
    for number, end in enumerate(ends):
        (clients / f"producer-{number}.progress").write_bytes(b"")
        if end is not None:
            (clients / f"in-force-producer-{number}.json").write_text(json.dumps(end))
    return folder


def test_producers_that_an_allowed_error_ended_have_stopped(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        {"librdkafka": "2.16.0", "ended.by": "_GAPLESS_GUARANTEE"},
        {"librdkafka": "2.16.0", "ended.by": "_FENCED"},
        {"librdkafka": "2.16.0"},
        None,
    )
    allowed = scenario(may_stop_for=["_GAPLESS_GUARANTEE"])
    assert client_counts(run, allowed) == {"stopped": 1}
    beside = {"clicks": {"settings": {"acks": 1, "enable.idempotence": False}}}
    beside["clicks"]["may_stop_for"] = ["_FENCED"]
    document = scenario(beside=beside).model_dump(mode="json", by_alias=True)
    document["topics"]["clicks"] = {}
    assert client_counts(run, Scenario.model_validate(document)) == {"stopped": 1}


def test_where_no_producer_may_stop_none_is_counted(tmp_path: Path) -> None:
    assert client_counts(run_of(tmp_path, {"ended.by": "_FATAL"}), scenario()) == {}


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    run = run_of(tmp_path, {})
    (run / "clients" / "in-force-producer-0.json").write_text("{")
    with pytest.raises(RunDirectoryError, match=r"in-force-producer-0\.json is damaged"):
        client_counts(run, scenario(may_stop_for=["_FATAL"]))


@pytest.mark.parametrize(
    ("settings", "found"),
    [({"client.rack": "b"}, {"follower-fetch": 1}), ({"isolation.level": "read_committed"}, {})],
)
def test_fetches_from_followers_are_counted_where_consumers_have_a_rack(
    tmp_path: Path, settings: dict[str, str], found: dict[str, int]
) -> None:
    of = {"consumer": 0, "group": "readers", "at": AT, "poll": 0, "topic": "orders"}
    rows = [
        {**of, "event": event, "partition": 0, "offset": 7}
        for event in ("assigned", "follower-fetch")
    ]
    (tmp_path / "consumer_events").mkdir()
    path = tmp_path / "consumer_events" / "consumer-0.parquet"
    write_table(path, CONSUMER_EVENTS, "run-1", rows)
    given = scenario(consumers={"readers": {"settings": settings}})
    assert client_counts(tmp_path, given) == found
