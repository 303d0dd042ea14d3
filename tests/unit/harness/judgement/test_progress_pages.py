"""The ledger is held against the pages on which the producers counted."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ackproof.clients.shared_page import Progress, ProgressPage, State, recorded
from ackproof.errors import RunDirectoryError
from ackproof.judgement.judge import admit
from ackproof.judgement.progress_pages import check_streams, contradictions
from ackproof.ledger.producer_ledger import LedgerWriter, Origin, stream_path, table_path
from ackproof.runs import directory as runs
from ackproof.scenario.loader import load
from spark_histories import RUN_ID, parse
from stored_runs import TOPIC, store

OBSERVED = {"sent": 10, "acked": 8, "failed": 1, "unknown": 1}


def page(run_dir: Path, state: State, *counts: int) -> None:
    path = run_dir / "clients" / "producer-0.progress"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("=5q", state, *counts).ljust(4096, b"\0"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    sends = [f"0/{n} to 0: acked at {n}" for n in range(8)]
    sends += ["0/8 to 0: failed MSG_SIZE_TOO_LARGE", "0/9 to 0: unknown _MSG_TIMED_OUT"]
    return store(tmp_path / "run", parse({"sends": sends, "ends": ["0: 0-8"]}))


def said(run_dir: Path) -> list[str]:
    scenario = load(run_dir / "scenario.yaml")[0].scenario
    return list(contradictions(run_dir, scenario, OBSERVED))


def test_a_page_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = ProgressPage(tmp_path / "page", create=True)
    written.count(sent=10, acked=8, failed=1, unknown=1, at=7)
    written.state = State.SETTLING
    counts = Progress(sent=10, acked=8, failed=1, unknown=1)
    assert recorded(tmp_path / "page") == (State.SETTLING, counts)


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        (State.DONE, (10, 8, 1, 1)),
        (State.PRODUCING, (9, 5, 1, 0)),  # killed: the ledger may be ahead of the page
        (State.LOADING, (0, 0, 0, 0)),
    ],
)
def test_a_ledger_with_all_that_was_counted_passes(
    run_dir: Path, state: State, counts: tuple[int, ...]
) -> None:
    assert said(run_dir) == []  # an older run has no pages
    page(run_dir, state, *counts)
    assert said(run_dir) == []


@pytest.mark.parametrize(
    ("state", "counts", "reason"),
    [
        (State.PRODUCING, (15, 8, 1, 1), "producer 0 counted 15 sends, and its ledger has 10"),
        (State.DONE, (9, 7, 1, 1), "producer 0 counted 9 sends, and its ledger has 10"),
        (
            State.PRODUCING,
            (10, 9, 1, 0),
            "the producers counted 9 acked sends, and the ledger has 8",
        ),
        (State.DONE, (10, 7, 1, 2), "the producers counted 7 acked sends, and the ledger has 8"),
        (State.PRODUCING, (10, 7, 2, 1), "the producers counted 2 failed sends, and the ledger"),
    ],
)
def test_a_ledger_that_contradicts_a_page_is_named(
    run_dir: Path, state: State, counts: tuple[int, ...], reason: str
) -> None:
    page(run_dir, state, *counts)
    assert reason in said(run_dir)[0]


def test_a_page_of_no_producer_is_refused(run_dir: Path) -> None:
    page(run_dir, State.DONE, 10, 8, 1, 1)
    (run_dir / "clients" / "producer-0.progress").rename(
        run_dir / "clients" / "producer-x.progress"
    )
    with pytest.raises(RunDirectoryError, match="its name has no number"):
        said(run_dir)


@pytest.mark.parametrize("counts", [(10, 9, 1, 1), (10, 7, 1, 1)])
def test_a_page_whose_sum_is_wrong_is_named(run_dir: Path, counts: tuple[int, ...]) -> None:
    page(run_dir, State.DONE, *counts)
    assert f"producer 0 counted 10 sends, and {sum(counts[1:])} outcomes of them" in said(run_dir)


def test_a_damaged_page_is_refused(run_dir: Path) -> None:
    page(run_dir, State.DONE, 10, 8, 1, 1)
    path = run_dir / "clients" / "producer-0.progress"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RunDirectoryError, match="has 100 bytes"):
        said(run_dir)


@pytest.fixture
def interrupted(run_dir: Path) -> Path:
    """A run whose producer has recorded three acks in a stream, and was not closed."""
    table_path(run_dir, 0).unlink()
    origin = Origin(run_id=RUN_ID, producer=0, topic=TOPIC, partitions=1)
    writer = LedgerWriter(stream_path(run_dir, 0), origin)
    writer.reserve(5)
    writer.write(
        sequence=np.arange(3), outcome=0, offset=pa.array([0, 1, 2]), sent_at=np.arange(1, 4)
    )
    return run_dir


def check(run_dir: Path) -> None:
    check_streams(run_dir, load(run_dir / "scenario.yaml")[0].scenario)


def test_a_stream_of_a_killed_producer_is_no_damage(interrupted: Path) -> None:
    page(interrupted, State.PRODUCING, 4, 2, 0, 0)
    check(interrupted)
    stream_path(interrupted, 0).write_bytes(b"")
    page(interrupted, State.STARTING, 0, 0, 0, 0)
    check(interrupted)


@pytest.mark.parametrize("content", [b"", b"garbage" * 100])
def test_a_stream_that_lost_recorded_sends_is_refused(interrupted: Path, content: bytes) -> None:
    page(interrupted, State.PRODUCING, 4, 2, 0, 0)
    stream_path(interrupted, 0).write_bytes(content)
    with pytest.raises(RunDirectoryError, match="0 of the 4 sends can be read"):
        check(interrupted)


def test_an_unclosed_stream_of_a_producer_that_ended_is_refused(interrupted: Path) -> None:
    page(interrupted, State.DONE, 3, 3, 0, 0)
    with pytest.raises(RunDirectoryError, match="is damaged"):
        check(interrupted)


def test_an_interrupted_run_with_a_damaged_stream_is_refused_and_left_alone(
    interrupted: Path,
) -> None:
    page(interrupted, State.PRODUCING, 4, 2, 0, 0)
    record = runs.read_record(interrupted).model_copy(update={"pid": 0, "finished_at": None})
    runs.write_model(interrupted / "run.json", record)
    stream_path(interrupted, 0).write_bytes(b"garbage" * 100)
    with pytest.raises(RunDirectoryError, match="0 of the 4 sends can be read"):
        admit(interrupted)
    assert stream_path(interrupted, 0).read_bytes() == b"garbage" * 100
    assert not table_path(interrupted, 0).exists()
