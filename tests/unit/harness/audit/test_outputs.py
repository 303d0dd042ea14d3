"""JSON, SARIF, JUnit, annotations and Markdown of an audit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from ackproof.audit.answer import Answer, Audit, Effect
from ackproof.audit.auditing import audit_clusters, with_tables
from ackproof.audit.detail import Detail
from ackproof.audit.diff import difference
from ackproof.audit.failing import thresholds, with_failing
from ackproof.audit.failure import Failure
from ackproof.audit.finishing import finished
from ackproof.audit.outputs import OUTPUTS
from ackproof.audit.outputs.json_document import document
from ackproof.audit.outputs.sarif import sarif
from ackproof.own_config.reading import read_texts
from ackproof.scenario.shipped import schema_of
from support.audits import CRASH, MINIMUM, POWER, audit, orders, risk
from support.json_schemas import closed
from support.origins import at
from support.snapshots import plain

ROOT = Path(__file__).parents[4]


def as_json(value: object) -> dict:
    return json.loads(json.dumps(value))


def test_json_has_the_keys_of_the_contract() -> None:
    whole = as_json(document(audit()))
    assert whole["schema"] == "ackproof.audit/1"
    assert whole["read"][0] == {"file": "docker-compose.yml", "shape": "compose"}
    assert whole["kafka"]["version"] == {"value": "3.9.1", "source": "docker-compose.yml:4"}
    [answer] = whole["answers"]
    assert answer["settings"]["acks"] == {"value": "all", "source": "app/application.yml:9"}
    first = answer["risks"][0]
    assert (first["effect"], first["likelihood"], first["failures"], first["case"]) == (
        "lost",
        "possible",
        ["lag", "power_loss"],
        "B5",
    )
    assert first["decided_by"][0]["setting"] == "min.insync.replicas"
    assert first["decided_by"][0]["change"] == "2"
    assert first["runs"] == {"showed": 10, "of": 10, "kafka": "4.3.1"}
    assert ["crash", "crash"] in answer["survives"]


def test_json_follows_the_stored_schema() -> None:
    stored = closed(schema_of("audit"))
    compared = difference(audit(orders(risks=())), audit(), base="main")
    jsonschema.validate(as_json(document(audit(difference=compared))), stored)
    nothing = audit(orders(topic="", producer=""), version=None, mode=None)
    jsonschema.validate(as_json(document(nothing)), stored)
    wrong = as_json(document(audit()))
    wrong["answers"][0]["risks"][0]["effect"] = "gone"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, stored)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(as_json(document(audit())) | {"another": "key"}, stored)


def test_the_stored_schema_has_every_effect_and_failure() -> None:
    parts = schema_of("audit")["$defs"]
    assert parts["Effect"]["enum"] == list(Effect)
    assert parts["Failure"]["enum"] == list(Failure)


def failed(of: Audit) -> Audit:
    return with_failing(of, thresholds([]))


def shown(name: str, of: Audit) -> str:
    return OUTPUTS[name].render(of)


def test_the_name_of_an_output_is_one_word() -> None:
    output = OUTPUTS["sarif"]
    with pytest.raises(ValueError, match="'code-quality' is not one word"):
        replace(output, name="code-quality")
    assert replace(output, name="code_quality").name == "code_quality"


def test_sarif_names_rule_file_and_line() -> None:
    log = as_json(sarif(failed(audit()), version="1"))
    [run] = log["runs"]
    assert log["version"] == "2.1.0"
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert "lost/B5" in ids
    assert len(ids) == len(set(ids))
    result = run["results"][0]
    assert ids[result["ruleIndex"]] == result["ruleId"] == "lost/B5"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "docker-compose.yml"
    assert place["region"]["startLine"] == 18
    fingerprints = [one["partialFingerprints"]["risk/v1"] for one in run["results"]]
    assert len(fingerprints) == len(set(fingerprints))


def test_sarif_marks_what_fails_and_what_is_accepted() -> None:
    accepted = risk(accepted="a reason", case="B6")
    of = audit(orders(risks=(risk(), accepted)))
    first, second = sarif(failed(of), version="1")["runs"][0]["results"]
    assert first["level"] == "error"
    assert "suppressions" not in first
    assert second["level"] == "note"
    assert second["suppressions"][0]["justification"] == "a reason"


def test_annotations_are_of_failing_risks_only() -> None:
    of = audit()
    lines = shown("annotations", failed(of)).splitlines()
    assert lines[0].startswith("::error file=docker-compose.yml,line=18,title=lost/B5::orders")
    assert sum(line.startswith("::error") for line in lines) == 3
    assert lines[-1].startswith("::warning file=values.yaml")


def test_junit_has_a_case_for_each_risk_and_each_survived_set() -> None:
    of = audit(orders(risks=(risk(), risk(accepted="a reason", failures=(CRASH,)))))
    root = ET.fromstring(shown("junit", failed(of)))
    assert (root.get("tests"), root.get("failures")) == ("5", "1")
    assert "docker-compose.yml:18" in root.find(".//failure").text
    assert "a reason" in root.find(".//skipped").get("message")


def test_markdown_has_answer_table_and_changes(snapshot) -> None:
    text = shown("markdown", audit())
    assert text.count("CAN LOSE") == 6
    assert plain(text) == snapshot


def test_markdown_of_a_change_begins_with_it(snapshot) -> None:
    compared = difference(audit(orders(risks=(risk(failures=(CRASH,)),))), audit(), base="main")
    change = shown("markdown", audit(difference=compared)).removesuffix(shown("markdown", audit()))
    assert change.count("✅") == 1
    assert plain(change) == snapshot


def test_variants_are_one_finding_and_stay_apart_in_json(snapshot) -> None:
    both = [risk(failures=(one,), case="B2") for one in (CRASH, Failure.CLEAN_RESTART)]
    other = risk(failures=(Failure.POWER_LOSS,), case="B2")
    whole = audit(orders(risks=(*both, other), alternatives=()))
    results = sarif(failed(whole), version="1")["runs"][0]["results"]
    assert len(results) == 1
    assert results[0]["message"]["text"] == snapshot
    risks = as_json(document(whole))["answers"][0]["risks"]
    assert [one["variant_of"] for one in risks] == [None, ["crash"], ["crash"]]


def test_a_new_variant_of_an_old_risk_is_new() -> None:
    old, new = risk(failures=(CRASH,)), risk(failures=(Failure.CLEAN_RESTART,))
    compared = difference(audit(orders(risks=(old,))), audit(orders(risks=(old, new))), base="m")
    [finding] = compared.new
    assert finding.variants == (new,)


_LIGHT = """
import sys

absent = sys.argv.pop(1).split(",")


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
from ackproof.cli.main import main
main()
"""


def test_every_output_works_without_extras(tmp_path) -> None:
    """With the packages of `dependencies` alone, and Python's own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["beside-spark"]
    packages = [re.match(r"[a-z0-9-]+", one)[0].replace("-", "_") for one in extra]
    absent = [{"protobuf": "google", "google_crc32c": "google"}.get(one, one) for one in packages]
    (tmp_path / "producer.properties").write_text("acks=1\n")
    names = [one.name for one in OUTPUTS.values() if one.to == "file"]
    files = [word for one in names for word in (f"--{one}", f"out.{one}")]
    command = [sys.executable, "-c", _LIGHT, ",".join([*absent, "pyspark"]), "audit"]
    done = subprocess.run(
        [*command, "producer.properties", *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert len(list(tmp_path.glob("out.*"))) == len(names) > 2


def page_of(whole: Audit) -> str:
    return OUTPUTS["html"].render(finished(with_failing(whole, thresholds([]))))


def test_a_page_of_several_answers_begins_with_all_of_them() -> None:
    """Their headings differ; one answer needs no overview."""
    several = page_of(audit(orders(), orders(producer="billing.yml")))
    assert several.index('<a href="#group-2">orders</a>') < several.index('<article class="run"')
    headings = re.findall(r'<h2 id="group-\d+">(.*?)</h2>', several)
    assert len(headings) == len(set(headings)) == 2
    assert "billing.yml" in headings[1]
    alone = page_of(audit())
    assert 'id="overview"' not in alone
    assert re.findall(r'<h2 id="group-1">(.*?)</h2>', alone) == [headings[0].rpartition(" (")[0]]


def test_cells_of_a_page_have_the_names_of_their_columns() -> None:
    """A row is a card on a phone, and these pages have no scripts."""
    page = page_of(audit())
    columns = re.findall(r'<th scope="col">(.*?)</th>', page)
    assert set(re.findall('data-label="(.*?)"', page)) <= set(columns)
    assert not re.search(r"<td(?![^>]*data-label)[^>]*>[^<\s]", page)


def test_annotations_are_at_most_twenty_the_worst_first() -> None:
    def rare(number: int) -> Answer:
        decided = replace(MINIMUM, source=at(f"p{number}.yml:1"))
        lost = risk(failures=(POWER, POWER), case="B9", decided_by=(decided,))
        return orders(producer=f"p{number}.yml", risks=(lost,))

    worst = orders(risks=(risk(failures=(CRASH,), case="B4", likelihood="certain"),))
    lines = shown("annotations", failed(audit(*map(rare, range(30)), worst))).splitlines()
    assert len(lines) == 20
    assert "B4" in lines[0]
    assert lines[-1].endswith("and 13 more: --markdown and --sarif have all")


def test_a_risk_has_one_result_for_each_place() -> None:
    """Two topics take their minimum from one line; a third one states its own."""
    own = replace(MINIMUM, source=at("topics.yml:3"))
    whole = audit(
        orders(topic="a", risks=(risk(),)),
        orders(topic="b", risks=(risk(),)),
        orders(topic="c", risks=(risk(decided_by=(own,)),)),
    )
    results = sarif(failed(whole), version="1")["runs"][0]["results"]
    said = [one["message"]["text"] for one in results]
    assert len(results) == 2
    assert said[0].startswith("a: ")
    assert said[0].endswith("The same line decides 1 more such risk.")
    assert said[1].startswith("c: ")


def _usual_page(text: bytes) -> str:
    detail = Detail.TABLES | Detail.EVERY_VALUE
    whole = audit_clusters(read_texts({"producer.properties": text}), detail=detail)
    shown = with_tables(finished(with_failing(whole, thresholds([]))), detail)
    return OUTPUTS["html"].render(shown)


def test_a_page_about_little_begins_with_what_is_known_and_folds_the_table() -> None:
    before, _, folded = _usual_page(b"acks=1\nlinger.ms=5\n").partition("<details>")
    assert "Whatever the rest is: <strong>" in before
    assert "Assumed: kafka.version=" in before
    assert before.count('<table class="stacks failures"') == 1
    assert "The files leave kafka.version" not in before
    assert "For every value that the files leave open" in folded
    assert folded.count('<table class="stacks failures"') == 1
    assert "Assumed: " not in page_of(audit())
    assert "<details>" not in page_of(audit())


def test_a_page_lists_what_is_not_used_with_the_reason() -> None:
    _, _, unused = _usual_page(b"acks=1\nlinger.ms=5\n").partition("Not used: 1 setting: linger.ms")
    assert "<li>no rule of this answer reads it: linger.ms (producer.properties:2)</li>" in unused
