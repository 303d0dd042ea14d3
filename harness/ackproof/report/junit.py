"""JUnit XML for Jenkins, GitLab and GitHub's test reporters.

One `testsuite` for each run, one `testcase` for each expectation. An expectation that was not met
is a `failure` with its evidence. Every expectation of an inconclusive run is an `error` with the
reason. So the file reports a problem exactly when the exit code is not 0. Findings do not change a
verdict; they are in the suite's properties and output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from xml.etree import ElementTree as ET

from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.runs.verdict import Expectation, Verdict, Word
from ackproof.safe_files import replacing

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write `junit.xml` for these runs to `path`."""
    root = ET.Element("testsuites", name="ackproof")
    for verdict in verdicts:
        root.append(_suite(verdict))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ET.indent(root)
    with replacing(path) as partial:
        ET.ElementTree(root).write(partial, encoding="utf-8", xml_declaration=True)


def _suite(verdict: Verdict) -> ET.Element:
    seconds = verdict.metrics.duration_s
    if verdict.finished_at is not None:
        seconds = (verdict.finished_at - verdict.started_at).total_seconds()
    cases = [_case(verdict, expectation) for expectation in _expectations(verdict)]
    suite = ET.Element(
        "testsuite",
        name=_clean(_label(verdict)),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped="0",
        time=f"{seconds:.3f}",
        timestamp=f"{verdict.started_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(verdict).items():
        ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    # The duration is the run's; the first case has it, so that sums over cases are right.
    for case, time in zip(cases, [seconds, *[0.0] * len(cases)], strict=False):
        case.set("time", f"{time:.3f}")
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = _clean("\n".join(_output(verdict)))
    return suite


def _label(verdict: Verdict) -> str:
    if not verdict.configuration_name:
        return verdict.scenario
    return f"{verdict.scenario}[{verdict.configuration_name}]"


def _expectations(verdict: Verdict) -> list[Expectation]:
    """Return the expectations, and one for the verdict if none of them explains it."""
    violated = verdict.verdict is Word.VIOLATED
    if verdict.expectations and not (violated and all(line.met for line in verdict.expectations)):
        return verdict.expectations
    whole = Expectation(what="verdict", wanted="holds", observed=verdict.reason, met=not violated)
    return [*verdict.expectations, whole]


def _case(verdict: Verdict, expectation: Expectation) -> ET.Element:
    case = ET.Element(
        "testcase",
        name=_clean(f"{expectation.what}: {expectation.wanted}"),
        classname=_clean(_label(verdict)),
    )
    if verdict.verdict is Word.INCONCLUSIVE:
        error = ET.SubElement(case, "error", type="inconclusive", message=_clean(verdict.reason))
        error.text = _clean("\n".join(_output(verdict)))
    elif not expectation.met:
        message = wording.unmet(expectation)
        failure = ET.SubElement(case, "failure", type="violated", message=_clean(message))
        failure.text = _clean("\n".join([message, *_output(verdict)]))
    return case


def _properties(verdict: Verdict) -> dict[str, str]:
    properties = {
        "run_id": verdict.run_id,
        "verdict": verdict.verdict.value,
        "seed": str(verdict.seed),
        "kafka_version": verdict.kafka_version,
        "unavailability_s": f"{verdict.metrics.unavailability_s:g}",
    }
    properties |= {f"configuration.{k}": str(v) for k, v in verdict.configuration.items()}
    properties |= {f"observed.{key}": str(number) for key, number in verdict.observed.items()}
    properties |= {f"predicted.{key}": likelihood for key, likelihood in verdict.predicted.items()}
    if probe := verdict.metrics.probe:
        for action, share in (("read", probe.read), ("write", probe.write)):
            properties[f"{action}_availability"] = f"{share.share:g}"
            properties[f"{action}_longest_outage_s"] = f"{share.longest_s:g}"
    if latency := verdict.metrics.ack_latency_ms:
        properties |= {f"ack_latency_ms.{k}": f"{v:g}" for k, v in latency.model_dump().items()}
    if verdict.findings:
        properties["findings"] = " ".join(wording.finding_sentences(verdict))
    return properties


def _output(verdict: Verdict) -> list[str]:
    lines = [f"{verdict.verdict.value}: {verdict.reason}"]
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


def _clean(text: str) -> str:
    """Replace control characters that XML does not allow."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
