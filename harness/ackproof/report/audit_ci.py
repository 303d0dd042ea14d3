"""An audit for CI: JUnit XML with a test case for each risk, and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from ackproof.audit.answer import Answer, Audit
from ackproof.audit.places import findings, of_answer
from ackproof.audit.words import EFFECTS, phrase
from ackproof.report.ci import cleaned, command, write_suites


def audit_annotations(audit: Audit, failing: Collection[int]) -> Iterator[str]:
    """Yield an error for each risk in `failing` (by `id`), and a warning for a refused file."""
    for finding in findings(audit):
        if finding.fails(failing):
            yield command("error", Path(finding.file), finding.line, finding.rule, finding.text)
    for refused in audit.refused:
        yield command("warning", Path(refused.file), 1, "not read", refused.reason)


def write_audit_junit(path: Path, audit: Audit, failing: Collection[int]) -> None:
    """Write a suite for each topic and client.

    A risk in `failing` (by `id`) is a failure, an accepted one is skipped; survived failures pass.
    """
    root = ET.Element("testsuites", name="ackproof audit")
    for answer in audit.answers:
        suite = ET.SubElement(root, "testsuite", name=cleaned(_name(answer)))
        suite.extend([*_risks(answer, audit, failing), *_survived(answer)])
    write_suites(path, root)


def _name(answer: Answer) -> str:
    parts = (answer.topic or "any topic", answer.producer, answer.consumer)
    return ", ".join(filter(None, parts))


def _risks(answer: Answer, audit: Audit, failing: Collection[int]) -> Iterator[ET.Element]:
    for finding in of_answer(answer, audit):
        risk = finding.risk
        name = f"{EFFECTS[risk.effect]}, {finding.after}"
        case = ET.Element("testcase", name=cleaned(name), classname=cleaned(_name(answer)))
        if finding.fails(failing):
            failure = ET.SubElement(case, "failure", type=finding.rule)
            failure.set("message", cleaned(finding.text))
            lines = [f"{finding.file}:{finding.line}", finding.text, *risk.told().trace]
            failure.text = cleaned("\n".join(lines))
        elif risk.accepted:
            ET.SubElement(case, "skipped", message=cleaned(f"accepted: {risk.accepted}"))
        yield case


def _survived(answer: Answer) -> Iterator[ET.Element]:
    for failures in answer.survives:
        name = f"nothing acknowledged is lost: {phrase(failures)}"
        yield ET.Element("testcase", name=cleaned(name), classname=cleaned(_name(answer)))
