from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackproof.comparison.summary import summary_of
from ackproof.console import Console
from ackproof.report import wording
from ackproof.report.terminal import print_comparison, print_run
from ackproof.runs.verdict import NOT_KAFKA, StoppedProducer, Word

ENDED = "Broker 1 ended by itself at 06:23:15 UTC: Halting broker because dir /data is offline"


def printed(call, *, width: int = 80, terminal: bool = False) -> str:
    stream = io.StringIO()
    colours = "truecolor" if terminal else "auto"
    call(Console(file=stream, width=width, force_terminal=terminal, color_system=colours))
    return stream.getvalue()


def compared(*made, width: int = 80, terminal: bool = False) -> str:
    verdicts = [each.verdict for each in made]
    run_dirs = [each.directory for each in made]
    summary = summary_of(verdicts, run_dirs)
    page = Path("out/report.html")
    return printed(
        lambda console: print_comparison(console, summary, verdicts, run_dirs, page),
        width=width,
        terminal=terminal,
    )


def shown(made, **options) -> str:
    return printed(lambda console: print_run(console, made.verdict, made.directory), **options)


def test_comparison_has_one_row_for_each_question(acks_0, acks_1, acks_all):
    lines = compared(acks_0, acks_1, acks_all, width=160).splitlines()
    rows = {line[:40].strip(): line[40:].split() for line in lines}
    assert rows["acks"] == ["0", "1", "all"]
    assert rows["Are acked records lost?"] == [
        *(f"{each.verdict.observed['lost']:,}" for each in (acks_0, acks_1)),
        "no",
    ]
    assert rows["As the scenario expects?"] == ["yes"] * 3
    assert lines[0].startswith("Advice: Use 'acks=all")
    assert "Matches prediction: yes, in all 3 configurations." in lines
    assert lines[-1] == "Report: out/report.html"


def test_a_producer_that_stopped_for_good_is_in_the_first_lines(acks_1, acks_all):
    stopped = [StoppedProducer(producer=0, error="OUT_OF_ORDER_SEQUENCE_NUMBER")]
    inconclusive = {"verdict": Word.INCONCLUSIVE, "reason": "producer 0 stopped for good: why"}
    verdict = acks_1.verdict.model_copy(update={"stopped": stopped, **inconclusive})
    assert verdict.observed["lost"]
    made = acks_1._replace(verdict=verdict)
    outage = "OUTAGE: producer 0 stopped for good: OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert shown(made, width=120).splitlines()[1].startswith(outage)
    assert (
        compared(made, acks_all, width=120).splitlines()[0].startswith("OUTAGE with acks=1: OUT_OF")
    )
    for text in (shown(acks_1), compared(acks_1, acks_all)):
        assert "OUTAGE" not in text


def test_unobserved_data_is_listed_below_the_table(acks_1, acks_all):
    stalled = SimpleNamespace(
        verdict=acks_all.verdict.model_copy(update={"unobserved": ["ack latency"]}),
        directory=acks_all.directory,
    )
    lines = compared(acks_1, stalled).splitlines()
    assert f"{acks_all.verdict.name}: Not observed: ack latency" in lines
    assert sum("Not observed" in line for line in lines) == 1


def test_a_node_that_ended_by_itself_is_named_first(acks_1, ended):
    for text in (shown(ended, width=200), compared(ended, acks_1, width=200)):
        assert text.index(ENDED) < text.index("Matches prediction")
        assert text.count("ended by itself") == 1


def test_words_in_tables_do_not_break(acks_0, acks_1, acks_all, unverified):
    def words(width):
        text = compared(acks_0, acks_1, acks_all, unverified, width=width)
        return set((text + shown(acks_1, width=width)).replace("─", " ").split())

    assert words(80) == words(99)


def test_findings_and_undecided_runs_have_a_sentence(acks_1, finding, unverified):
    text = " ".join(compared(acks_1, finding, unverified).split())
    assert "Matches prediction: yes, in acks=1." in text
    assert "FINDING in acks=all: lost is predicted impossible, observed 3: With acks=all" in text
    assert "Undecided in acks=1: kill of broker 1 was never seen to hold" in text


def test_a_comparison_prints_the_whole_reason_of_an_inconclusive_run(acks_1, unverified):
    reason = "producer 0 stopped for good: _FENCED\n  its hint; kill of broker 1 never began"
    for changes in ({}, {"predicted": {}}):
        verdict = unverified.verdict.model_copy(update={"reason": reason, **changes})
        assert "kill of broker 1 never began" in compared(
            acks_1, unverified._replace(verdict=verdict), width=300
        )


@pytest.mark.parametrize("width", [80, 100, 160])
def test_lines_are_not_truncated_and_fit_the_width(acks_1, acks_all, unverified, width):
    text = compared(acks_1, acks_all, unverified, width=width)
    paths = {str(each.directory) for each in (acks_1, acks_all, unverified)}
    assert all(len(line) <= width for line in text.splitlines() if line not in paths)
    assert "…" not in text
    assert "undecided" in text
    assert "impossible" in text


def test_a_cluster_that_is_not_kafka_has_no_kafka_version(acks_all):
    other = acks_all.verdict.model_copy(update={"kafka_version": NOT_KAFKA})
    text = printed(lambda console: print_run(console, other, acks_all.directory), width=160)
    assert "(not Apache Kafka, seed 1" in text
    assert "Kafka 4" not in text


def test_without_a_terminal_the_output_is_plain_text(acks_1):
    assert "\x1b" not in compared(acks_1)
    assert "\x1b" not in shown(acks_1)
    assert "\x1b" in compared(acks_1, terminal=True)


def test_no_color_is_honoured(acks_1, monkeypatch):
    assert "32m" in compared(acks_1, terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "32m" not in compared(acks_1, terminal=True)


def test_the_first_line_says_whether_acked_records_were_lost(acks_1, finding, unverified):
    lost, acked = (finding.verdict.observed[key] for key in ("lost", "acked"))
    assert shown(finding).startswith(f"Lost {lost} of {acked:,} acked records, none expected")
    assert "FINDING: lost is predicted impossible, observed 3" in shown(finding)
    assert "Matches prediction: no" in shown(finding)
    assert "Matches prediction: yes" in shown(acks_1)
    for made in (acks_1, finding):
        assert not re.search("holds|violated|agrees", shown(made), re.IGNORECASE)
    assert unverified.verdict.reason in " ".join(shown(unverified).split())


def test_an_expected_loss_is_also_red(acks_1, acks_all):
    assert shown(acks_1, terminal=True).startswith("\x1b[1;31mLost")
    assert shown(acks_all, terminal=True).startswith("\x1b[1;32mKept all")


def test_several_topics_have_separate_counts(acks_1):
    by_topic = {"orders": {"sent": 2000, "acked": 2000}, "clicks": {"sent": 10, "lost": 3}}
    verdict = acks_1.verdict.model_copy(update={"by_topic": by_topic})
    several = printed(lambda console: print_run(console, verdict, acks_1.directory))
    lines = several.splitlines()
    assert "orders: 2,000 sent, 2,000 acked" in lines
    assert "clicks: 10 sent, 3 lost" in lines
    assert not any(line.startswith("orders: ") for line in shown(acks_1).splitlines())


def test_run_shows_trace_faults_with_proof_and_lost_records(acks_1):
    text = " ".join(shown(acks_1).split())
    assert "1. orders-0: leader 1, ISR {1, 2, 3}" in text
    assert "6. broker 1 comes back" in text
    assert "F3 kill of leader of orders-0 (broker 1)" in text
    assert "proof: broker 1: exit status 137" in text
    assert text.count("LOST 142 records of orders-0") == 1
    assert f"Lost records ({acks_1.verdict.observed['lost']})" in text


def test_an_unverified_fault_is_not_shown_as_verified(unverified, acks_1):
    assert "NOT VERIFIED: not verified: broker 1 still answers" in shown(unverified)
    assert "NOT VERIFIED" not in shown(acks_1)


def test_table_marks_the_anomaly_that_disagrees(finding, unverified):
    rows = {line.split()[0]: line.split() for line in shown(finding).splitlines() if line.strip()}
    assert rows["lost"] == ["lost", "impossible", "3", "no:", "FINDING"]
    assert rows["duplicated"] == ["duplicated", "impossible", "0", "yes"]
    assert "phantom impossible 0 undecided" in " ".join(shown(unverified).split())


def test_long_paths_are_not_wrapped(acks_1, tmp_path):
    directory = tmp_path / ("long" * 30)
    assert f"Run directory: {directory}" in shown(acks_1._replace(directory=directory))


def test_brackets_are_not_interpreted_as_markup(acks_1):
    changes = {"verdict": Word.INCONCLUSIVE, "reason": "[bold]x[/bold]"}
    made = acks_1._replace(verdict=acks_1.verdict.model_copy(update=changes))
    assert "[bold]x[/bold]" in shown(made)


def test_causes_are_shown_for_one_run_and_in_a_comparison(explained, acks_1):
    [cause] = explained.verdict.causes
    line = f"{wording.cause_title(cause)}: {cause.sentence}"
    for text in (shown(explained, width=100), compared(explained, width=100)):
        assert line in " ".join(text.split())
    assert "Why" not in shown(acks_1)
    told = acks_1.verdict.model_copy(update={"causes": [], "reported_errors": ["fault 1 lied"]})
    assert "Why\n - fault 1 lied" in shown(acks_1._replace(verdict=told))
