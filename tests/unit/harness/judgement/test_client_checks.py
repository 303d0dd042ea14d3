"""Counts of client events that are no anomalies, and streams of interrupted runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ackproof.clients.shared_page import State
from ackproof.errors import RunDirectoryError
from ackproof.judgement.client_checks import check_streams, client_counts, stopped_producers
from ackproof.judgement.judge import admit
from ackproof.ledger.producer_ledger import LedgerWriter, Origin, stream_path, table_path
from ackproof.runs.verdict import StoppedProducer
from spark_histories import RUN_ID
from support.run_directories import TOPIC, RunDirectory, small


def run_of(path: Path, *ends: dict[str, str] | None, **workload: object) -> RunDirectory:
    """Return a run whose producers have left these files, None for no file."""
    run = RunDirectory.create(path, small(workload=workload))
    for number, end in enumerate(ends):
        run.clients(f"producer-{number}.progress")
        if end is not None:
            file = run.path / "clients" / f"in-force-producer-{number}.json"
            file.write_text(json.dumps(end))
    return run


def test_producers_that_an_allowed_error_ended_have_stopped(tmp_path: Path) -> None:
    ends = [{"ended.by": "_GAPLESS_GUARANTEE"}, {"ended.by": "_FENCED"}, {}, None]
    run = run_of(tmp_path, *ends, may_stop_for=["_GAPLESS_GUARANTEE"])
    assert client_counts(run.evidence()) == {"stopped": 1}
    # A fenced producer has a successor: that is no outage.
    gap = StoppedProducer(producer=0, error="_GAPLESS_GUARANTEE")
    assert stopped_producers(run.evidence()) == [gap]
    clicks = {"settings": {"acks": 1, "enable.idempotence": False}, "may_stop_for": ["_FENCED"]}
    run.change_scenario(topics={"clicks": {}}, workload={"beside": {"clicks": clicks}})
    assert client_counts(run.evidence()) == {"stopped": 2}


def test_without_an_allowed_error_no_producer_is_counted_as_stopped(tmp_path: Path) -> None:
    assert client_counts(run_of(tmp_path, {"ended.by": "_FATAL"}).evidence()) == {}


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    run = run_of(tmp_path, {}, may_stop_for=["_FATAL"])
    (run.path / "clients" / "in-force-producer-0.json").write_text("{")
    with pytest.raises(RunDirectoryError, match=r"in-force-producer-0\.json is damaged"):
        client_counts(run.evidence())


@pytest.mark.parametrize(
    ("settings", "counts"),
    [({"client.rack": "b"}, {"follower-fetch": 1}), ({"isolation.level": "read_committed"}, {})],
)
def test_fetches_from_followers_are_counted_where_consumers_have_a_rack(
    settings: dict[str, str], counts: dict[str, int], tmp_path: Path
) -> None:
    run = run_of(tmp_path, consumers={"readers": {"settings": settings}})
    events = [{"event": event} for event in ("assigned", "follower-fetch")]
    run.write("consumer_events", events, name="consumer-0")
    assert client_counts(run.evidence()) == counts


@pytest.fixture
def interrupted(tmp_path: Path) -> RunDirectory:
    """A run whose producer has recorded three acks in a stream, and was not closed."""
    run = RunDirectory.create(tmp_path / "run", small(), pid=0, finished_at=None)
    stream = stream_path(run.path, 0)
    stream.parent.mkdir()
    writer = LedgerWriter(stream, Origin(run_id=RUN_ID, producer=0, topic=TOPIC, partitions=1))
    writer.reserve(5)
    writer.write(
        sequence=np.arange(3), outcome=0, offset=pa.array([0, 1, 2]), sent_at=np.arange(1, 4)
    )
    return run


def test_a_stream_of_a_killed_producer_is_no_damage(interrupted: RunDirectory) -> None:
    interrupted.page("producer-0", State.PRODUCING, 4, 2)
    check_streams(interrupted.evidence())
    stream_path(interrupted.path, 0).write_bytes(b"")
    interrupted.page("producer-0", State.STARTING)
    check_streams(interrupted.evidence())


@pytest.mark.parametrize("content", [b"", b"garbage" * 100])
def test_a_stream_that_lost_recorded_sends_is_refused_and_left_alone(
    interrupted: RunDirectory, content: bytes
) -> None:
    interrupted.page("producer-0", State.PRODUCING, 4, 2)
    stream = stream_path(interrupted.path, 0)
    stream.write_bytes(content)
    with pytest.raises(RunDirectoryError, match="0 of the 4 sends can be read"):
        admit(interrupted.path)
    assert stream.read_bytes() == content
    assert not table_path(interrupted.path, 0).exists()


def test_an_unclosed_stream_of_a_producer_that_ended_is_refused(interrupted: RunDirectory) -> None:
    interrupted.page("producer-0", State.DONE, 3, 3)
    with pytest.raises(RunDirectoryError, match="is damaged"):
        check_streams(interrupted.evidence())
