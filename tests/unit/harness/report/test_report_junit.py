from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from ackproof.report.ci import write_junit
from ackproof.runs.verdict import ExitCode, StoppedProducer, Verdict, Word, exit_code


@pytest.fixture
def written(tmp_path):
    def write(*made) -> ET.Element:
        path = tmp_path / "junit.xml"
        verdicts = [each if isinstance(each, Verdict) else each.verdict for each in made]
        write_junit(path, verdicts)
        root = ET.parse(path).getroot()
        counts = {
            "tests": len(root.findall(".//testcase")),
            "failures": len(root.findall(".//failure")),
            "errors": len(root.findall(".//error")),
        }
        assert counts == {key: int(root.get(key)) for key in counts}
        red = counts["failures"] + counts["errors"] > 0
        assert red == (exit_code(one.verdict for one in verdicts) is not ExitCode.HOLDS)
        return root

    return write


def test_one_case_for_each_configuration_and_expectation(written, acks_1, acks_all):
    root = written(acks_1, acks_all)
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == [
        "acks[acks=1]",
        "acks[acks=all, min.insync.replicas=2]",
    ]
    assert [case.get("name") for case in suites[0].findall("testcase")] == [
        "loss: some",
        "phantom: none",
        "corrupt: none",
    ]
    assert all(case.get("classname") and case.get("time") for case in root.iter("testcase"))


def test_a_failure_contains_the_evidence(written, finding):
    root = written(finding)
    (failure,) = root.findall(".//failure")
    assert failure.get("message") == (
        f"loss: expected none, observed 3 of {finding.verdict.observed['acked']:,} acked"
    )
    assert "broker 1: exit status 137" in failure.text
    assert "FINDING: lost is predicted impossible, observed 3: With acks=all" in failure.text


def test_a_fatal_error_of_a_producer_is_in_the_first_line(written, finding, acks_all):
    stopped = [StoppedProducer(producer=0, error="OUT_OF_ORDER_SEQUENCE_NUMBER")]
    outage = "OUTAGE: producer 0 stopped for good: OUT_OF_ORDER_SEQUENCE_NUMBER"
    for made in (finding, acks_all):
        changed = made.verdict.model_copy(update={"stopped": stopped})
        for verdict, says in ((changed, True), (made.verdict, False)):
            suite = written(verdict).find("testsuite")
            texts = [suite.find("system-out").text, *(each.text for each in suite.iter("failure"))]
            assert all((outage in "\n".join(text.splitlines()[:2])) == says for text in texts)
            properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
            assert ("stopped" in properties) == says
    assert properties["verdict"] == "holds"


def test_the_output_names_the_causes(written, explained):
    [cause] = explained.verdict.causes
    assert cause.sentence in written(explained).find(".//system-out").text


def test_inconclusive_is_an_error_with_its_reason(written, unverified):
    root = written(unverified)
    errors = root.findall(".//error")
    assert len(errors) == 3
    assert {error.get("type") for error in errors} == {"inconclusive"}
    assert "never seen to hold" in errors[0].get("message")


def test_counts_are_properties_and_elements_in_the_order_of_the_schema(written, acks_1):
    root = written(acks_1)
    properties = {each.get("name"): each.get("value") for each in root.iter("property")}
    assert properties["observed.lost"] == str(acks_1.verdict.observed["lost"])
    assert properties["predicted.lost"] == "certain"
    assert properties["configuration.acks"] == "1"
    assert float(properties["ack_latency_ms.p99"]) > 0
    assert "findings" not in properties
    (suite,) = root.findall("testsuite")
    tags = [child.tag for child in suite]
    assert tags == ["properties", "testcase", "testcase", "testcase", "system-out"]
    assert suite.get("timestamp") == "2026-11-21T12:03:48"


def test_a_finding_in_a_run_that_holds_is_written_without_a_failure(written, finding):
    verdict = finding.verdict.model_copy(update={"verdict": Word.HOLDS, "expectations": []})
    root = written(verdict)
    assert "impossible" in root.find(".//property[@name='findings']").get("value")
    assert "FINDING" in root.find(".//system-out").text


def test_a_violation_without_an_unmet_expectation_is_a_failure(written, finding):
    met = [line.model_copy(update={"met": True}) for line in finding.verdict.expectations]
    root = written(finding.verdict.model_copy(update={"expectations": met}))
    assert root.find(".//failure") is not None


def test_markup_and_control_characters_are_text(written, unverified):
    evil = 'orders-<b>0</b> & ]]> "x" <!-- \x1b[2J\x00'
    changes = {"reason": evil, "scenario": evil, "configuration_name": evil}
    root = written(unverified.verdict.model_copy(update=changes))
    assert {element.tag for element in root.iter()} <= {
        *("testsuites", "testsuite", "properties", "property", "testcase", "error", "system-out"),
    }
    shown = 'orders-<b>0</b> & ]]> "x" <!-- \ufffd[2J\ufffd'  # XML allows no control characters
    assert shown in root.find(".//system-out").text
    assert root.find("testsuite").get("name").startswith(shown)
    assert all(error.get("message").startswith(shown) for error in root.iter("error"))
