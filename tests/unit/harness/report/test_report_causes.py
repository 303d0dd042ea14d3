"""Causes of losses on the page, on the terminal and in junit.xml."""

from __future__ import annotations

import io
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from ackproof.report.data.loss_stories import read_loss_stories
from ackproof.report.data.losses import read_examples
from ackproof.report.html import write_html
from ackproof.report.junit import write_junit
from ackproof.report.terminal import print_comparison, print_run
from ackproof.runs.verdict import CauseReport, Verdict
from ackproof_spark.tables import LOCATION, LOST_STORIES
from unit.harness.report.synthetic import START

SENTENCE = "1,481 records of orders-0 (offsets 1200-2680): acks=1: leader 1 was killed <there>"


def cause(case: str = "B2", title: str = "acks=1, leader lost before replication") -> CauseReport:
    return CauseReport(
        case=case,
        title=title,
        count=1481,
        topic="orders",
        partition=0,
        first_offset=1200,
        last_offset=2680,
        first_acked_at=START,
        last_acked_at=START,
        window=2,
        sentence=SENTENCE,
    )


@pytest.fixture
def explained(acks_1, tmp_path: Path) -> tuple[Path, Verdict]:
    directory = Path(shutil.copytree(acks_1.directory, tmp_path / "run"))
    verdict = acks_1.verdict.model_copy(update={"causes": [cause()]})
    (directory / "verdict.json").write_text(verdict.model_dump_json())
    folder = directory / LOCATION["lost_stories"]
    folder.mkdir()
    rows = [
        {
            "schema_version": 1,
            "run_id": "run",
            "topic": record.topic,
            "partition": record.partition,
            "producer": record.producer,
            "sequence": record.sequence,
            "offset": record.offset,
            "acked_at": record.resolved_at,
            "leader": 1,
            "leader_epoch": 0,
            "isr": [3, 1, 2],
            "next_leader": 2,
            "next_leader_epoch": 1,
            "next_leader_start": 1200,
            "elected_at": START + timedelta(seconds=16),
            "held_by": [],
            "case": "B2",
            "cause": "",
        }
        for record in reversed(read_examples(directory)[1:])
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=LOST_STORIES), folder / "part-0.parquet")
    return directory, verdict


def terminal(show, *arguments: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    show(console, *arguments)
    return " ".join(console.file.getvalue().split())


def test_stories_are_in_the_order_of_their_records(explained) -> None:
    records = read_examples(explained[0])
    losses = read_loss_stories(explained[0], records)
    assert [(one["producer"], one["sequence"]) for one in losses] == [
        (one.producer, one.sequence) for one in records[1:]
    ]
    assert read_loss_stories(explained[0], ()) == ()


def test_a_damaged_or_missing_table_has_no_stories(explained) -> None:
    directory, records = explained[0], read_examples(explained[0])
    file = directory / LOCATION["lost_stories"] / "part-0.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    assert read_loss_stories(directory, records) == ()
    shutil.rmtree(directory / LOCATION["lost_stories"])
    assert read_loss_stories(directory, records) == ()


def test_the_page_shows_causes(explained, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html(path, [explained[0]], title="t")
    page = " ".join(path.read_text().split())
    assert "acks=1, leader lost before replication (B2)." in page
    assert "leader 1 was killed &lt;there&gt;" in page
    assert "epoch 0, ISR {1, 2, 3}" in page
    assert "broker 2, epoch 1" in page
    assert "log end 1200" in page
    assert "not logged" in page


def test_a_run_without_causes_has_no_section_for_them(acks_1, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html(path, [acks_1.directory], title="t")
    assert 'class="stories causes"' not in path.read_text()
    assert "Why" not in terminal(print_run, acks_1.verdict, acks_1.directory)


def test_the_terminal_shows_causes(explained) -> None:
    directory, verdict = explained
    said = terminal(print_run, verdict, directory)
    assert f"acks=1, leader lost before replication (B2): {SENTENCE}" in said
    compared = terminal(print_comparison, [verdict], [directory], directory / "report.html")
    assert SENTENCE in compared


def test_an_unexplained_loss_has_no_case_number(explained) -> None:
    update = {"causes": [cause("unexplained", "unexplained")]}
    said = terminal(print_run, explained[1].model_copy(update=update), explained[0])
    assert f"unexplained: {SENTENCE}" in said


def test_junit_shows_causes(explained, tmp_path: Path) -> None:
    write_junit(tmp_path / "junit.xml", [explained[1]])
    assert "leader 1 was killed &lt;there&gt;" in (tmp_path / "junit.xml").read_text()
