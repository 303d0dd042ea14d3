from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackproof.comparison.summary import summary_of
from ackproof.console import Console
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.report import wording
from ackproof.report.terminal import print_comparison, print_run
from ackproof.runs.verdict import NOT_KAFKA, StoppedProducer, Word
from support.snapshots import plain

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


def stored(text: str, *made) -> str:
    """Return a text with the names of run directories in place of their paths.

    The scenarios of these runs have the default version of Kafka.
    """
    paths = {each.directory.name: each.directory for each in made}
    return plain(text, **paths, DEFAULT=DEFAULT_KAFKA)


def test_comparison_has_one_row_for_each_question(acks_0, acks_1, acks_all, snapshot):
    text = compared(acks_0, acks_1, acks_all, width=160)
    rows = [line.split() for line in text.splitlines()]
    assert ["acks", "0", "1", "all"] in rows
    assert text.splitlines()[-1] == "Report: out/report.html"
    assert stored(text, acks_0, acks_1, acks_all) == snapshot


def test_a_producer_that_stopped_for_good_is_in_the_first_lines(acks_1, acks_all, snapshot):
    stopped = [StoppedProducer(producer=0, error="OUT_OF_ORDER_SEQUENCE_NUMBER")]
    inconclusive = {"verdict": Word.INCONCLUSIVE, "reason": "producer 0 stopped for good: why"}
    verdict = acks_1.verdict.model_copy(update={"stopped": stopped, **inconclusive})
    assert verdict.observed["lost"]
    made = acks_1._replace(verdict=verdict)
    _, second, *_ = shown(made, width=300).splitlines()
    first, *_ = compared(made, acks_all, width=300).splitlines()
    assert second.startswith("OUTAGE: ")
    assert first.startswith("OUTAGE with acks=1: ")
    assert f"{second}\n{first}" == snapshot
    for text in (shown(acks_1), compared(acks_1, acks_all)):
        assert "OUTAGE" not in text


def test_unobserved_data_is_listed_below_the_table(acks_1, acks_all, snapshot):
    stalled = SimpleNamespace(
        verdict=acks_all.verdict.model_copy(update={"unobserved": ["ack latency"]}),
        directory=acks_all.directory,
    )
    lines = compared(acks_1, stalled).splitlines()
    [unobserved] = [line for line in lines if "Not observed" in line]
    assert unobserved == snapshot


def test_a_node_that_ended_by_itself_is_named_first(acks_1, ended):
    for text in (shown(ended, width=200), compared(ended, acks_1, width=200)):
        assert text.index(ENDED) < text.index("Matches prediction")
        assert text.count("ended by itself") == 1


def test_words_in_tables_do_not_break(acks_0, acks_1, acks_all, unverified):
    def words(width):
        text = compared(acks_0, acks_1, acks_all, unverified, width=width)
        return set((text + shown(acks_1, width=width)).replace("─", " ").split())

    assert words(80) == words(99)


def test_findings_and_undecided_runs_have_a_sentence(acks_1, finding, unverified, snapshot):
    text = compared(acks_1, finding, unverified)
    assert (text.count("FINDING in "), text.count("Undecided in ")) == (1, 1)
    assert stored(text, acks_1, finding, unverified) == snapshot


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


def test_a_cluster_that_is_not_kafka_has_no_kafka_version(acks_all, snapshot):
    other = acks_all.verdict.model_copy(update={"kafka_version": NOT_KAFKA})
    text = printed(lambda console: print_run(console, other, acks_all.directory), width=160)
    assert "Kafka 4" not in text
    assert text.splitlines()[0] == snapshot


def test_without_a_terminal_the_output_is_plain_text(acks_1):
    assert "\x1b" not in compared(acks_1)
    assert "\x1b" not in shown(acks_1)
    assert "\x1b" in compared(acks_1, terminal=True)


def test_no_color_is_honoured(acks_1, monkeypatch):
    assert "32m" in compared(acks_1, terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "32m" not in compared(acks_1, terminal=True)


def test_the_first_line_says_whether_acked_records_were_lost(acks_1, finding, unverified, snapshot):
    lost, acked = (finding.verdict.observed[key] for key in ("lost", "acked"))
    assert shown(finding).startswith(f"Lost {lost} of {acked:,} ")
    assert stored(shown(finding), finding) == snapshot
    assert "Matches prediction: no" in shown(finding)
    assert "Matches prediction: yes" in shown(acks_1)
    for made in (acks_1, finding):
        assert not re.search("holds|violated|agrees", shown(made), re.IGNORECASE)
    assert unverified.verdict.reason in " ".join(shown(unverified).split())


def test_an_expected_loss_is_also_red(acks_1, acks_all):
    assert shown(acks_1, terminal=True).startswith("\x1b[1;31mLost")
    assert shown(acks_all, terminal=True).startswith("\x1b[1;32mKept all")


def test_several_topics_have_separate_counts(acks_1, snapshot):
    by_topic = {"orders": {"sent": 2000, "acked": 2000}, "clicks": {"sent": 10, "lost": 3}}
    verdict = acks_1.verdict.model_copy(update={"by_topic": by_topic})
    several = printed(lambda console: print_run(console, verdict, acks_1.directory))
    lines = several.splitlines()
    counts = [line for line in lines if line.startswith(("orders: ", "clicks: "))]
    assert "\n".join(counts) == snapshot
    assert not any(line.startswith("orders: ") for line in shown(acks_1).splitlines())


def test_run_shows_trace_faults_with_proof_and_lost_records(acks_1, snapshot):
    text = shown(acks_1)
    assert text.count("LOST 142 records") == 1
    assert f"Lost records ({acks_1.verdict.observed['lost']})" in text
    assert stored(text, acks_1) == snapshot


def test_an_unverified_fault_is_not_shown_as_verified(unverified, acks_1, snapshot):
    assert "NOT VERIFIED" in shown(unverified)
    assert stored(shown(unverified), unverified) == snapshot
    assert "NOT VERIFIED" not in shown(acks_1)


def test_table_marks_the_anomaly_that_disagrees(finding, unverified):
    rows = [line.split() for line in shown(finding).splitlines()]
    assert ["lost", "impossible", "3", "no:", "FINDING"] in rows
    assert ["duplicated", "impossible", "0", "yes"] in rows
    undecided = [line.split() for line in shown(unverified).splitlines()]
    assert ["phantom", "impossible", "0", "undecided"] in undecided


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
