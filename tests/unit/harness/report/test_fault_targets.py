"""Reports show the nodes, client or topic of a fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import catalogue_runs
import pytest
from rich.console import Console

from ackproof.judgement.overview.collect import overview_of
from ackproof.report import sequence, wording
from ackproof.report.ci import write_junit
from ackproof.report.html import read_run, write_html
from ackproof.report.run_plots import faults
from ackproof.report.terminal import print_run
from ackproof.runs.verdict import FaultReport, Verdict
from ackproof.scenario import shipped
from ackproof.scenario.loader import load
from support import synthetic_run as synthetic

HIT = [
    ("pause_client", {"client": "producer 0"}, "producer 0"),
    ("reassign", {"topic": "orders", "to": [2, 3, 1]}, "topic orders"),
    ("upgrade_feature", {"feature": "kraft.version"}, ""),
]


def window(fault: str, parameters: dict[str, Any], *, number: int = 0) -> dict[str, Any]:
    [cut, _] = synthetic.fault_windows(synthetic.Options())
    hit = {"fault": fault, "target": "all", "nodes": [1, 2, 3]}
    return cut | hit | {"window": number, "parameters": json.dumps(parameters)}


@pytest.fixture(scope="module")
def hits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verdict]:
    """A run with faults that hit no nodes."""
    run_dir = tmp_path_factory.mktemp("runs") / "run"
    rows = [window(fault, given, number=number) for number, (fault, given, _) in enumerate(HIT)]
    synthetic.make(run_dir, synthetic.Options(rate=300, acks="1", windows=rows))
    return run_dir, synthetic.explain(run_dir)


@pytest.mark.parametrize(("fault", "parameters", "hit"), HIT)
def test_a_report_has_the_client_or_topic_of_its_fault(
    fault: str, parameters: dict[str, Any], hit: str
) -> None:
    report = FaultReport.of_window(window(fault, parameters))
    assert report.hit == hit
    assert str(report) == f"{fault} of {hit}".removesuffix(" of ")
    assert wording.fault(report) == wording.fault_with_target(report) == str(report)


@pytest.mark.parametrize("fault", ["kill", "of_a_plugin_that_is_gone"])
def test_a_fault_of_nodes_is_described_by_target_or_nodes(fault: str) -> None:
    report = FaultReport.of_window(window(fault, {}) | {"target": "leader of orders-0"})
    assert report.hit is None
    assert str(report) == f"{fault} of leader of orders-0"
    assert wording.fault(report) == f"{fault} of brokers 1, 2 and 3"
    words = f"{fault} of leader of orders-0 (brokers 1, 2 and 3)"
    assert wording.fault_with_target(report) == words


def test_a_verdict_without_the_field_hit_shows_nodes(hits: tuple[Path, Verdict]) -> None:
    stored = json.loads(hits[1].model_dump_json())
    for fault in stored["faults"]:
        del fault["hit"]
    [first, *_] = Verdict.model_validate(stored).faults
    assert wording.fault_with_target(first) == "pause_client of all (brokers 1, 2 and 3)"


def test_terminal_and_junit_show_clients_and_topics_of_faults(
    hits: tuple[Path, Verdict], tmp_path: Path
) -> None:
    run_dir, verdict = hits
    console = Console(record=True, width=100)
    print_run(console, verdict, run_dir)
    write_junit(tmp_path / "junit.xml", [verdict])
    for text in (console.export_text(), (tmp_path / "junit.xml").read_text()):
        assert "F1 pause_client of producer 0" in text
        assert "F2 reassign of topic orders" in text
        assert "F3 upgrade_feature" in text
        assert "upgrade_feature of" not in text
        assert "of all" not in text


def test_page_and_plot_show_clients_and_topics_of_faults(
    hits: tuple[Path, Verdict], tmp_path: Path
) -> None:
    run_dir, _ = hits
    write_html(tmp_path / "report.html", [run_dir], title="explained")
    page = (tmp_path / "report.html").read_text()
    assert 'F1 pause_client<span class="sub">producer 0</span>' in page
    assert 'F2 reassign<span class="sub">topic orders</span>' in page
    assert 'F3 upgrade_feature<span class="sub"></span>' in page
    figure = faults(overview_of(run_dir))
    assert figure is not None
    assert "F1 pause_client of producer 0 from " in figure.spoken
    labels = [label["text"] for label in figure.layout["annotations"]]
    assert labels[:2] == ["F1 pause_client of producer 0", "F2 reassign of topic orders"]


def test_a_diagram_marks_no_broker_for_a_fault_of_a_client(hits: tuple[Path, Verdict]) -> None:
    run_dir, _ = hits
    overview = overview_of(run_dir)
    diagram = sequence.of_history(overview.histories[0], overview)
    assert diagram is not None
    drawn = [line for line in diagram.lines if line.kind == "fault"]
    assert "F1 pause_client of producer 0 in force" in [line.text for line in drawn]
    assert [line.marks for line in drawn] == [()] * len(drawn)


def test_the_catalogue_shows_clients_and_topics_of_faults(hits: tuple[Path, Verdict]) -> None:
    run_dir, verdict = hits
    path = shipped.find("catalogue/b06-last-replica-standing")
    assert path is not None
    line = catalogue_runs.line_of(load(path)[0], verdict, run_dir)
    assert [row[2] for row in line["details"]["timeline"]] == [hit for *_, hit in HIT]
    labels = [what for *_, what in line["details"]["plot"]["windows"]]
    assert labels == ["pause_client producer 0", "reassign topic orders", "upgrade_feature"]


def test_a_loss_is_drawn_in_the_order_of_its_events(explained) -> None:
    overview = overview_of(explained.directory)
    most, single = overview.histories
    [*_, (_, _, caption)] = read_run(explained.directory).diagrams
    assert f"most records ({most.count} of {most.count + single.count})" in caption
    diagram = sequence.of_history(most, overview)
    assert diagram is not None
    assert diagram.participants == ("producer", "controller", "broker 1", "broker 2", "broker 3")
    changes = [line.text for line in diagram.lines if line.text.startswith("the ISR is")]
    assert changes == ["the ISR is {2, 3}"]
    said = [line.text.partition(" ")[0] for line in diagram.lines if line.text not in changes]
    assert said == ["F2", "sends", "acked", "the", "F3", "elected", "F3", "F2", "truncates", "each"]
    times = [line.at for line in diagram.lines[:-1]]
    assert times == sorted(times)
    arrows = [line.arrow for line in diagram.lines if line.arrow]
    assert arrows == [(0, 2), (2, 0), (2, 0), (1, 3)]
    assert diagram.lines[-1].text == f"each of these {most.count} records is in no replica's log"
    kept = single.model_copy(update={"held_by": [3]})
    alone = sequence.of_history(kept, overview)
    assert alone is not None
    assert [line.arrow for line in alone.lines if line.arrow] == [(0, 2), (2, 0), (1, 3)]
    assert alone.lines[-1].text.endswith("is only in the log of broker 3, and cannot be read")
    assert sequence.of_history(single.model_copy(update={"leader": None}), overview) is None
