"""Causes of losses on the page, on the terminal and in junit.xml."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.report.ci import write_junit
from ackproof.report.html import write_html
from ackproof.report.terminal import print_comparison, print_run
from ackproof.runs.verdict import CauseReport, Verdict
from support.synthetic_run import START

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
    return directory, verdict


def terminal(show, *arguments: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    show(console, *arguments)
    return " ".join(console.file.getvalue().split())


def test_the_page_shows_causes_diagrams_and_histories(told, explained, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html(path, [told.directory], title="t")
    page = " ".join(path.read_text().split())
    assert "acks=1, leader lost before replication (B2)." in page
    assert page.index("What the model foresaw") < page.index("<h4>What happened</h4>")
    assert "epoch 0, ISR {1, 2, 3}" in page
    assert "broker 2, epoch 1" in page
    write_html(path, [explained[0]], title="t")
    page = " ".join(path.read_text().split())
    assert "leader 1 was killed &lt;there&gt;" in page
    assert "What the model foresaw" not in page


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
