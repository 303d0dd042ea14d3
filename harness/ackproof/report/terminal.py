"""Runs and comparisons on the terminal: outcome and advice first, then the evidence.

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
from ackproof.judgement.overview.collect import overview_of
from ackproof.report import advice, comparison, wording
from ackproof.report import formatting as fmt
from ackproof.report.console_tables import TONE, print_item
from ackproof.report.wording import agreement, agreement_of, agreement_sentences, outcome, sentence
from ackproof.runs.overview import Overview
from ackproof.runs.verdict import FaultReport, Verdict, Word

#: Colours of `Outcome.as_expected`.
_EXPECTED = {"yes": "green", "no": "bold red", "undecided": "bold yellow"}
_FINDING = "bold red"
#: The settings are printed beside the numbers from this width.
_WIDE = 100


def print_comparison(
    console: Console, verdicts: Sequence[Verdict], run_dirs: Sequence[Path], html: Path
) -> None:
    """Print a line for each configuration, the answer, and the paths of page and runs.

    `run_dirs` are in the order of `verdicts`. Only runs that do not hold have their path printed.
    """
    wide = console.width >= _WIDE
    table = _table()
    table.add_column("configuration", overflow="fold", ratio=1 if wide else None)
    table.add_column("predicted\nloss / dup.", min_width=len("impossible /"))
    table.add_column("lost /\nacked", justify="right")
    table.add_column("dup.", justify="right")
    table.add_column("unav.\ns", justify="right")
    table.add_column("ack p50\n/ p99 ms", justify="right", min_width=len("/ p99 ms"))
    table.add_column("as\nexpected")
    for verdict in verdicts:
        latency = verdict.metrics.ack_latency_ms
        predictions = (verdict.predicted.get(key, "-") for key in ("lost", "duplicated"))
        became = outcome(verdict)
        lost, acked = (fmt.count(verdict.observed.get(key, 0)) for key in ("lost", "acked"))
        table.add_row(
            _configuration(verdict, with_settings=wide),
            _slashed(*predictions, wide=wide),
            Text(_slashed(lost, acked, wide=wide), style=TONE[became.tone]),
            fmt.count(verdict.observed.get("duplicated", 0)),
            fmt.number(verdict.metrics.unavailability_s),
            _slashed(fmt.number(latency.p50), fmt.number(latency.p99), wide=wide)
            if latency
            else "-",
            Text(became.as_expected, style=_EXPECTED[became.as_expected]),
        )
    console.print(table)
    if not wide:
        for verdict in verdicts:
            if wording.settings(verdict):
                _say(console, f"{wording.name(verdict)}: {wording.settings(verdict)}", style="dim")
    for verdict in verdicts:
        for line in (*wording.ended_sentences(verdict), *wording.unobserved_sentences(verdict)):
            _say(console, f"{wording.name(verdict)}: {line}", style="dim")
    if not wide:
        console.print()
    for line in comparison.answer_of_runs(verdicts):
        _say(console, line)
    _print_advice(console, advice.of_runs(verdicts))
    console.print()
    for verdict in verdicts:
        for line in wording.cause_sentences(verdict):
            _say(console, f"{wording.name(verdict)}: {line}")
    _print_agreement(console, verdicts)
    for verdict, run_dir in zip(verdicts, run_dirs, strict=True):
        if verdict.verdict is not Word.HOLDS:
            became = outcome(verdict)
            reason = f" ({verdict.reason})" if verdict.verdict is Word.INCONCLUSIVE else ""
            line = f"{wording.name(verdict)}: {became.text}{reason}"
            _say(console, line, style=_EXPECTED[became.as_expected])
            _path(console, "", run_dir)
    _path(console, "Report: ", html)


def print_trials(
    console: Console, summary: Summary, verdicts: Sequence[Verdict], html: Path
) -> None:
    """Print the summary of a comparison with trials: a line for each configuration, the answer."""
    wide = console.width >= _WIDE
    table = _table()
    table.add_column("configuration", overflow="fold", ratio=1 if wide else None)
    table.add_column("predicted\nloss")
    table.add_column("trials\nlost / of", justify="right")
    table.add_column(f"interval\n{fmt.percent(summary.plan.confidence)}", justify="right")
    table.add_column("unav.\ns", justify="right")
    table.add_column("ack p99 /\np99.9 ms", justify="right")
    for cell in summary.cells:
        low, high = (f"{100 * end:.0f}" for end in (cell.lost_share_low, cell.lost_share_high))
        down, latency = cell.unavailability_s, cell.ack_latency_ms
        table.add_row(
            Text(cell.configuration, style="bold"),
            cell.predicted or "-",
            f"{cell.losing} / {cell.trials}" if cell.trials else "failed",
            f"{low} to {high} %",
            fmt.number(down.median) if down else "-",
            _slashed(
                fmt.number(latency["p99"].median),
                fmt.number(latency["p999"].median),
                wide=wide,
            )
            if latency
            else "-",
        )
    console.print(table)
    for line in comparison.answer(summary):
        _say(console, line)
    _print_advice(console, advice.of_trials(summary))
    _print_agreement(console, verdicts)
    _path(console, "Report: ", html)


def print_run(console: Console, verdict: Verdict, run_dir: Path) -> None:
    overview = overview_of(run_dir)
    heading = Text(sentence(verdict), style=f"bold {TONE[outcome(verdict).tone]}")
    heading.append(f"  {wording.name(verdict)}", style="bold")
    version = wording.kafka(verdict.kafka_version)
    facts = [version, f"seed {verdict.seed}", wording.settings(verdict)]
    heading.append(f"  ({', '.join(filter(None, facts))})", style="dim")
    console.print(heading, highlight=False)
    if verdict.verdict is Word.INCONCLUSIVE:
        _say(console, verdict.reason)
    for line in wording.ended_sentences(verdict):
        _say(console, line, style=_EXPECTED["undecided"])
    _print_advice(console, advice.of_run(verdict, overview.safer))
    _say(console, f"Matches prediction: {agreement_of(verdict)}")
    for line in (_cost(verdict), *wording.probe_sentences(verdict)):
        _say(console, line, style="dim")
    for line in wording.topic_sentences(verdict):
        _say(console, line)
    for line in wording.finding_sentences(verdict):
        _say(console, f"FINDING: {line}", style=_FINDING)
    for line in (*wording.unobserved_sentences(verdict), *wording.unchecked_sentences(verdict)):
        _say(console, line, style="dim")
    _print_expectations(console, verdict)
    _print_prediction(console, verdict)
    _print_faults(console, verdict.faults)
    _print_causes(console, verdict)
    _print_lost(console, verdict, overview)
    console.print()
    _path(console, "Run directory: ", run_dir)


def _print_agreement(console: Console, verdicts: Sequence[Verdict]) -> None:
    for line in agreement_sentences(verdicts):
        _say(console, line, style=_FINDING if line.startswith("FINDING") else "")


def _print_advice(console: Console, line: str) -> None:
    if line:
        _say(console, f"Advice: {line}", style="bold")


def _cost(verdict: Verdict) -> str:
    sends = ", ".join(
        f"{fmt.count(count)} {what}" for what, count in wording.sends(verdict).items()
    )
    latency = verdict.metrics.ack_latency_ms
    acks = (
        f"; ack latency p50 {fmt.duration(latency.p50)}, p99 {fmt.duration(latency.p99)}"
        if latency
        else ""
    )
    probe = verdict.metrics.probe
    probed = (
        f"; readable {fmt.share(probe.read.share, 1)}, writable {fmt.share(probe.write.share, 1)}"
        if probe
        else ""
    )
    unavailable = fmt.number(verdict.metrics.unavailability_s)
    return f"{sends}; unavailable {unavailable} s{probed}{acks}"


def _print_expectations(console: Console, verdict: Verdict) -> None:
    if not verdict.expectations:
        return
    _head(console, "Expectations")
    table = _table()
    for column in ("what", "expected", "observed", "met"):
        table.add_column(column, overflow="fold")
    for line in verdict.expectations:
        met = Text("met", style="green") if line.met else Text("not met", style="bold red")
        table.add_row(Text(line.what), Text(line.wanted), Text(line.text), met)
    console.print(table)


def _print_prediction(console: Console, verdict: Verdict) -> None:
    _head(console, "Prediction and observation")
    table = _table()
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
        _say(console, "The model's shortest trace:")
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
    if verdict.causes:
        _head(console, "Why")
    for line in wording.cause_sentences(verdict):
        print_item(console, " - ", line)


def _print_lost(console: Console, verdict: Verdict, overview: Overview) -> None:
    if overview.groups:
        _head(console, f"Lost records ({fmt.count(verdict.observed.get('lost', 0))})")
    for group in overview.groups:
        print_item(console, " - ", wording.story(group, verdict.faults))


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")


def _configuration(verdict: Verdict, *, with_settings: bool) -> Text:
    text = Text(wording.name(verdict), style="bold")
    if with_settings and wording.settings(verdict):
        text.append(f"\n{wording.settings(verdict)}", style="not bold dim")
    return text


def _slashed(first: str, second: str, *, wide: bool) -> str:
    return f"{first} / {second}" if wide else f"{first} /\n{second}"


def _head(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(Text(text, style=style), highlight=False)


def _path(console: Console, label: str, path: Path) -> None:
    """Print a path on one line, even if it is wider than the terminal, to be copied."""
    console.print(Text(f"{label}{path}"), soft_wrap=True, highlight=False)
