"""Runs and comparisons on the terminal: outcome and recommendation first, then the evidence.

Readable at 80 columns. Without a terminal rich prints plain text, with `NO_COLOR` no colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ackproof.comparison.summary import Summary
from ackproof.console import print_item, say
from ackproof.judgement.overview.collect import overview_of
from ackproof.report import certainty, comparison, recommendation, wording
from ackproof.report import formatting as fmt
from ackproof.report.console_tables import TONE, headed_table
from ackproof.report.wording import agreement, agreement_of, agreement_sentences, outcome, sentence
from ackproof.runs.overview import Overview
from ackproof.runs.verdict import FaultReport, Verdict, Word

#: Colours of `Outcome.as_expected`.
_EXPECTED = {"yes": "green", "no": "bold red", "undecided": "bold yellow"}
_FINDING = "bold red"
_MET = {"met": "green", "not met": "bold red", "not known": "bold yellow"}
#: From this width on, the table of a comparison has its questions in full.
_WIDE = 110
#: The least width of a configuration in that table.
_CONFIGURATION = 15


def print_comparison(
    console: Console,
    summary: Summary,
    verdicts: Sequence[Verdict],
    run_dirs: Sequence[Path],
    html: Path,
) -> None:
    """Print outages, the recommendation, the table, its conditions, the paths of page and runs.

    `run_dirs` are in the order of `verdicts`. Only runs that do not hold have their path printed.
    """
    for line in comparison.outages(summary):
        say(console, line, style=_FINDING)
    _print_recommendation(console, recommendation.of_comparison(summary))
    _print_questions(console, summary)
    for line in (*comparison.notes(summary), *certainty.statistics(summary)):
        say(console, line)
    results = list(zip(run_dirs, verdicts, strict=True))
    shown = comparison.shown_runs(summary, results, most=len(results))
    examples = [v for v, run_dir in zip(verdicts, run_dirs, strict=True) if run_dir in shown]
    for verdict in examples:
        for line in (*wording.ended_sentences(verdict), *wording.unobserved_sentences(verdict)):
            say(console, f"{verdict.name}: {line}", style="dim")
    for verdict in examples:
        for line in wording.cause_sentences(verdict):
            say(console, f"{verdict.name}: {line}")
    for line, is_finding in agreement_sentences(verdicts):
        say(console, line, style=_FINDING if is_finding else "")
    for verdict, run_dir in zip(verdicts, run_dirs, strict=True):
        if verdict.verdict is not Word.HOLDS:
            became = outcome(verdict)
            reason = verdict.reason if verdict.verdict is Word.INCONCLUSIVE else ""
            # `agreement_sentences` has the first line of the reason of an undecided run.
            undecided = verdict.predicted and wording.agreement_of(verdict) == "undecided"
            said = undecided and "\n" not in reason
            line = f"{verdict.name}: {became.text}{f' ({reason})' if reason and not said else ''}"
            say(console, line, style=_EXPECTED[became.as_expected])
            _path(console, "", run_dir)
    _path(console, "Report: ", html)


def _print_questions(console: Console, summary: Summary) -> None:
    """Print the table of a comparison: a row for each question, a column for each configuration.

    Configurations that do not fit side by side follow in a further table.
    """
    questions = comparison.questions(summary)
    labels = [q.text if console.width >= _WIDE else q.brief for q in questions]
    fitting = max(1, (console.width - max(map(len, labels))) // _CONFIGURATION)
    for first in range(0, len(summary.cells), fitting):
        table = Table(box=box.SIMPLE, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True)
        for number, (label, question) in enumerate(zip(labels, questions, strict=True)):
            answers = range(first, min(first + fitting, len(summary.cells)))
            last = question.names and not questions[number + 1].names
            table.add_row(
                label,
                *(_answer(question, answer) for answer in answers),
                style="bold" if question.names else "",
                end_section=last,
            )
        for column in table.columns[1:]:
            column.overflow, column.ratio = "fold", 1
        console.print(table)


def _answer(question: comparison.Question, number: int) -> Text:
    answer = question.answers[number]
    style = TONE["lost"] if answer.tone == "lost" else _EXPECTED.get(answer.tone, "")
    return Text("\n".join(filter(None, (answer.text, answer.note))), style=style)


def print_run(
    console: Console, verdict: Verdict, run_dir: Path, *, address: Path | str = ""
) -> None:
    """Print a judged run; `address`: where it is, if that is not `run_dir`."""
    overview = overview_of(run_dir)
    heading = Text(sentence(verdict), style=f"bold {TONE[outcome(verdict).tone]}")
    heading.append(f"  {verdict.name}", style="bold")
    version = wording.kafka(verdict.kafka_version)
    facts = [version, f"seed {verdict.seed}", wording.settings(verdict)]
    heading.append(f"  ({', '.join(filter(None, facts))})", style="dim")
    console.print(heading, highlight=False)
    for line in wording.stopped_sentences(verdict):
        say(console, line, style=_FINDING)
    if verdict.verdict is Word.INCONCLUSIVE:
        say(console, verdict.reason)
    for line in wording.ended_sentences(verdict):
        say(console, line, style=_EXPECTED["undecided"])
    _print_recommendation(console, [recommendation.of_run(verdict, overview.safer)])
    say(console, f"Matches prediction: {agreement_of(verdict)}")
    for line in (_cost(verdict), *wording.probe_sentences(verdict)):
        say(console, line, style="dim")
    if verdict.compared:
        say(console, f"Compared {verdict.compared}", style="dim")
    for line in wording.topic_sentences(verdict):
        say(console, line)
    for line in wording.finding_sentences(verdict):
        say(console, f"FINDING: {line}", style=_FINDING)
    for line in (*wording.unobserved_sentences(verdict), *wording.unchecked_sentences(verdict)):
        say(console, line, style="dim")
    _print_expectations(console, verdict)
    _print_prediction(console, verdict)
    _print_faults(console, verdict.faults)
    _print_causes(console, verdict)
    _print_lost(console, verdict, overview)
    console.print()
    _path(console, "Run directory: ", address or run_dir)


def _print_recommendation(console: Console, lines: Sequence[str]) -> None:
    first, *more = [line for line in lines if line] or [""]
    if first:
        say(console, f"Advice: {first}", style="bold")
    for line in more:
        say(console, line)


def _cost(verdict: Verdict) -> str:
    sends = ", ".join(f"{fmt.count(count)} {what}" for what, count in verdict.sends.items())
    latencies = [f"{quantile} {time}" for quantile, time in wording.latencies(verdict).items()]
    acks = f"; ack latency {', '.join(latencies)}" if latencies else ""
    probe = verdict.metrics.probe
    probed = (
        f"; readable {fmt.share(probe.read.share, 1)}, writable {fmt.share(probe.write.share, 1)}"
        if probe
        else ""
    )
    return f"{sends}; unavailable {wording.unavailable(verdict)}{probed}{acks}"


def _print_expectations(console: Console, verdict: Verdict) -> None:
    if not verdict.expectations:
        return
    _head(console, "Expectations")
    table = headed_table()
    for column in ("what", "expected", "observed", "met"):
        table.add_column(column, overflow="fold")
    for line in verdict.expectations:
        word = wording.met(verdict, line)
        met = Text(word, style=_MET[word])
        table.add_row(Text(line.what), Text(line.wanted), Text(line.text), met)
    console.print(table)


def _print_prediction(console: Console, verdict: Verdict) -> None:
    _head(console, "Prediction and observation")
    table = headed_table()
    table.add_column("anomaly")
    table.add_column("predicted")
    table.add_column("observed", justify="right")
    table.add_column("matches")
    for anomaly in wording.anomalies(verdict):
        state = agreement(verdict, anomaly) if anomaly in verdict.predicted else ""
        finding = state == "no"
        table.add_row(
            Text(anomaly),
            Text(verdict.predicted.get(anomaly, "-")),
            fmt.count(verdict.observed.get(anomaly, 0)),
            Text("no: FINDING" if finding else state, style=_FINDING if finding else ""),
        )
    console.print(table)
    if verdict.prediction.trace:
        say(console, "The model's shortest trace:")
        for number, step in enumerate(verdict.prediction.trace, start=1):
            print_item(console, f" {number:>2}. ", step)


def _print_faults(console: Console, faults: Sequence[FaultReport]) -> None:
    if not faults:
        return
    _head(console, "Faults (UTC)")
    for fault in faults:
        line = Text(f"{fmt.fault(fault.window)} {fault.fault}", style="bold")
        line.append(wording.fault_with_target(fault).removeprefix(fault.fault), style="not bold")
        console.print(line, highlight=False)
        moments = {
            name: fmt.clock(getattr(fault, f"{name}_at"))
            for name in ("injected", "verified", "healed", "recovered")
        }
        times = ", ".join(f"{name} {moment}" for name, moment in moments.items())
        proof, style = ("proof", "") if fault.verified else ("NOT VERIFIED", "bold yellow")
        print_item(console, "   ", times)
        print_item(console, "   ", f"trigger: {fault.trigger}")
        print_item(console, "   ", f"{proof}: {fault.evidence}", style=style)


def _print_causes(console: Console, verdict: Verdict) -> None:
    lines = wording.cause_sentences(verdict)
    if lines:
        _head(console, "Why")
    for line in lines:
        print_item(console, " - ", line)


def _print_lost(console: Console, verdict: Verdict, overview: Overview) -> None:
    if overview.groups:
        _head(console, f"Lost records ({fmt.count(verdict.observed.get('lost', 0))})")
    for group in overview.groups:
        print_item(console, " - ", wording.story(group, verdict.faults))
    if lines := wording.acked_lines_sentence(overview):
        say(console, f"{lines}.")


def _head(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))


def _path(console: Console, label: str, path: Path | str) -> None:
    """Print a path on one line, even if it is wider than the terminal, to be copied."""
    console.print(Text(f"{label}{path}"), soft_wrap=True, highlight=False)
