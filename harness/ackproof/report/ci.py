"""Output for CI: JUnit XML, and GitHub's step summary and annotations.

`junit.xml` has one `testsuite` for each run and one `testcase` for each expectation. An expectation
that was not met is a `failure` with its evidence. Every expectation of an inconclusive run is an
`error` with the reason. Findings do not change a verdict; they are in the suite's properties and
output. GITHUB_STEP_SUMMARY is a Markdown file to append to. With GITHUB_ACTIONS=true GitHub turns
lines `::error file=…,line=…::…` into annotations.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from xml.etree import ElementTree as ET

from ackproof.rendering.github import annotation
from ackproof.rendering.junit import cleaned, document
from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.runs.directory import disk_errors
from ackproof.runs.verdict import Expectation, Verdict, Word
from ackproof.safe_files import replacing
from ackproof.scenario.documents import FileLines
from ackproof.scenario.loader import Configured

_SIGN = {Word.HOLDS: "✅", Word.VIOLATED: "❌", Word.INCONCLUSIVE: "⚠️"}


def announce(configurations: Sequence[Configured], verdicts: Sequence[Verdict]) -> None:
    """Write the step summary and annotations that the environment requests."""
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        path = Path(summary)
        with disk_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(step_summary(verdicts))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in error_commands(configurations, verdicts):
            sys.stderr.write(f"{line}\n")


def step_summary(verdicts: Sequence[Verdict]) -> str:
    """Return a Markdown table of the verdicts, followed by reasons, causes and findings."""
    lines = [
        "| | configuration | predicted loss | result | unavailable | ack p99 | as expected |",
        "|---|---|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        outcome = wording.outcome(verdict)
        cells = (
            _SIGN[verdict.verdict],
            verdict.name,
            verdict.predicted.get("lost", "-"),
            outcome.text,
            wording.unavailable(verdict),
            wording.latencies(verdict).get("p99", "-"),
            outcome.as_expected,
        )
        lines.append(fmt.markdown_row(cells))
    lines.append("")
    for verdict in verdicts:
        lines += [f"- {sentence}" for sentence in wording.stopped_sentences(verdict)]
        if verdict.verdict is not Word.HOLDS:
            lines.append(f"**{verdict.name}**: {verdict.reason}\n")
        lines += [f"- {sentence}" for sentence in wording.cause_sentences(verdict)]
        lines += [f"- FINDING: {sentence}" for sentence in wording.finding_sentences(verdict)]
    return "\n".join(lines) + "\n"


def error_commands(configurations: Sequence[Configured], verdicts: Sequence[Verdict]) -> list[str]:
    """Return GitHub's workflow commands, each at a line of the scenario.

    These are an error for each expectation that was not met, a warning for an inconclusive run.
    """
    paths = {(item.scenario.name, item.name): item.path for item in configurations}
    files = {path: FileLines.read(path) for path in paths.values()}
    commands = []
    for verdict in verdicts:
        path = paths.get((verdict.scenario, verdict.configuration_name))
        if path is None or verdict.verdict is Word.HOLDS:
            continue
        lines = files[path]
        own = ("matrix", verdict.configuration_name) if verdict.configuration_name else ()
        title = f"{verdict.name}: {verdict.verdict.value}"
        if verdict.verdict is Word.INCONCLUSIVE:
            commands.append(annotation("warning", path, lines.line(own), title, verdict.reason))
            continue
        for unmet in (item for item in verdict.expectations if not item.met):
            expect = (*own, "expect") if lines.has((*own, "expect")) else ("expect",)
            line = lines.line((*expect, unmet.what))
            commands.append(annotation("error", path, line, title, wording.unmet(unmet)))
    return commands


def write_junit(path: Path, verdicts: Sequence[Verdict]) -> None:
    root = ET.Element("testsuites", name="ackproof")
    root.extend(map(_suite, verdicts))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    with replacing(path) as partial:
        partial.write_bytes(document(root))


def _suite(verdict: Verdict) -> ET.Element:
    seconds = verdict.metrics.duration_s
    if verdict.finished_at is not None:
        seconds = (verdict.finished_at - verdict.started_at).total_seconds()
    cases = [_case(verdict, expectation) for expectation in _expectations(verdict)]
    suite = ET.Element(
        "testsuite",
        name=cleaned(_label(verdict)),
        time=f"{seconds:.3f}",
        timestamp=f"{verdict.started_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(verdict).items():
        ET.SubElement(properties, "property", name=cleaned(name), value=cleaned(value))
    # The first case has the duration of the run, so that the sum over the cases is right.
    for case, time in zip(cases, [seconds, *[0.0] * len(cases)], strict=False):
        case.set("time", f"{time:.3f}")
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = cleaned("\n".join(_output(verdict)))
    return suite


def _label(verdict: Verdict) -> str:
    if not verdict.configuration_name:
        return verdict.scenario
    return f"{verdict.scenario}[{verdict.configuration_name}]"


def _expectations(verdict: Verdict) -> list[Expectation]:
    """Return the expectations, and one more for the verdict if they do not explain it."""
    violated = verdict.verdict is Word.VIOLATED
    if verdict.expectations and not (violated and all(line.met for line in verdict.expectations)):
        return verdict.expectations
    whole = Expectation(what="verdict", wanted="holds", observed=verdict.reason, met=not violated)
    return [*verdict.expectations, whole]


def _case(verdict: Verdict, expectation: Expectation) -> ET.Element:
    case = ET.Element(
        "testcase",
        name=cleaned(f"{expectation.what}: {expectation.wanted}"),
        classname=cleaned(_label(verdict)),
    )
    if verdict.verdict is Word.INCONCLUSIVE:
        error = ET.SubElement(case, "error", type="inconclusive", message=cleaned(verdict.reason))
        error.text = cleaned("\n".join(_output(verdict)))
    elif not expectation.met:
        message = wording.unmet(expectation)
        failure = ET.SubElement(case, "failure", type="violated", message=cleaned(message))
        failure.text = cleaned("\n".join([message, *_output(verdict)]))
    return case


def _properties(verdict: Verdict) -> dict[str, str]:
    properties = {
        "run_id": verdict.run_id,
        "verdict": verdict.verdict.value,
        "seed": str(verdict.seed),
        "kafka_version": verdict.kafka_version,
    }
    if verdict.metrics.times != "unknown":
        at_most = "_at_most" if verdict.metrics.times == "at most" else ""
        properties[f"unavailability{at_most}_s"] = f"{verdict.metrics.unavailability_s:g}"
    properties |= {f"configuration.{k}": str(v) for k, v in verdict.configuration.items()}
    properties |= {f"observed.{key}": str(number) for key, number in verdict.observed.items()}
    properties |= {f"predicted.{key}": likelihood for key, likelihood in verdict.predicted.items()}
    if probe := verdict.metrics.probe:
        for action, share in (("read", probe.read), ("write", probe.write)):
            properties[f"{action}_availability"] = f"{share.share:g}"
            properties[f"{action}_longest_outage_s"] = f"{share.longest_s:g}"
    if latency := verdict.metrics.ack_latency_ms:
        properties |= {f"ack_latency_ms.{k}": f"{v:g}" for k, v in latency.model_dump().items()}
    if verdict.stopped:
        properties["stopped"] = " ".join(wording.stopped_sentences(verdict))
    if verdict.findings:
        properties["findings"] = " ".join(wording.finding_sentences(verdict))
    return properties


def _output(verdict: Verdict) -> list[str]:
    lines = [*wording.stopped_sentences(verdict), f"{verdict.verdict.value}: {verdict.reason}"]
    lines += [f"FINDING: {sentence}" for sentence in wording.finding_sentences(verdict)]
    lines += wording.cause_sentences(verdict)
    for fault in verdict.faults:
        proof = "verified" if fault.verified else "NOT VERIFIED"
        lines.append(
            f"{fmt.fault(fault.window)} {wording.fault_with_target(fault)} "
            f"{fmt.clock(fault.injected_at)} to {fmt.clock(fault.healed_at)} UTC, {proof}: "
            f"{fault.evidence}"
        )
    if verdict.prediction.trace:
        lines.append("The model's shortest trace:")
        lines += [f"{n}. {step}" for n, step in enumerate(verdict.prediction.trace, start=1)]
    lines.append(f"run {verdict.run_id}")
    return lines
