"""An audit as JUnit XML: a suite for each topic and client, a test case for each risk."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from ackproof.audit.answer import Answer, Audit, Outcome
from ackproof.audit.finding import after, of_answer, text
from ackproof.audit.words import EFFECTS, phrase
from ackproof.rendering.junit import cleaned, document


def render(audit: Audit) -> str:
    """Return the suites. Failing risks and promises fail, accepted risks are skipped.

    Survived sets pass.
    """
    root = ET.Element("testsuites", name="ackproof audit")
    for answer in audit.answers:
        suite = ET.SubElement(root, "testsuite", name=cleaned(_suite_name(answer)))
        suite.extend([*_risk_cases(answer, audit), *_promised(answer), *_survived(answer)])
    return document(root).decode()


def _suite_name(answer: Answer) -> str:
    parts = (answer.topic or "any topic", answer.producer, answer.consumer)
    return ", ".join(filter(None, parts))


def _risk_cases(answer: Answer, audit: Audit) -> Iterator[ET.Element]:
    for finding in of_answer(answer, audit):
        risk = finding.risk
        name = f"{EFFECTS[risk.effect]}, {after(finding)}"
        case = ET.Element("testcase", name=cleaned(name), classname=cleaned(_suite_name(answer)))
        if finding.failing:
            failure = ET.SubElement(case, "failure", type=finding.rule)
            failure.set("message", cleaned(text(finding)))
            lines = [f"{finding.file}:{finding.line}", text(finding), *risk.trace]
            failure.text = cleaned("\n".join(lines))
        elif risk.accepted:
            ET.SubElement(case, "skipped", message=cleaned(f"accepted: {risk.accepted}"))
        yield case


def _promised(answer: Answer) -> Iterator[ET.Element]:
    for one in answer.promised:
        name = f"promise to survive {one.promise}: {phrase(one.failures)}"
        case = ET.Element("testcase", name=cleaned(name), classname=cleaned(_suite_name(answer)))
        if one.failing:
            ET.SubElement(case, "failure", type="promise", message=one.outcome)
        elif one.outcome is Outcome.ACCEPTED:
            ET.SubElement(case, "skipped", message=one.outcome)
        yield case


def _survived(answer: Answer) -> Iterator[ET.Element]:
    for failures in answer.survives:
        name = f"nothing acknowledged is lost: {phrase(failures)}"
        yield ET.Element("testcase", name=cleaned(name), classname=cleaned(_suite_name(answer)))
