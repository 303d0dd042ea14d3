"""The identity of a risk is made of facts; sets of keys and fingerprints follow from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.audit.answer import Effect
from ackproof.audit.assumption import Versions
from ackproof.audit.identity import apart_from_ways, fingerprint, identity, in_audit
from ackproof.audit.outputs.sarif import sarif
from ackproof.audit.request import Request
from ackproof.audit.request import audit as audited
from support.audits import CRASH, LAG, POWER, orders, risk

FILES = Path(__file__).parents[3] / "data" / "own_config"


@pytest.mark.parametrize("changes", [{"text": "other words"}, {"trace": ()}, {"at_risk": "all"}])
def test_a_sentence_is_no_part_of_an_identity(changes: dict) -> None:
    same = replace(risk(), **changes)
    assert identity(same) == identity(risk())
    assert apart_from_ways(same) == apart_from_ways(risk())
    assert fingerprint(orders(), same) == fingerprint(orders(), risk())


@pytest.mark.parametrize(
    "changes",
    [
        {"effect": Effect.DUPLICATED},
        {"likelihood": "certain"},
        {"case": "B6"},
        {"failures": (LAG, CRASH)},
        {"failures": (LAG, POWER, POWER)},
        {"when": {"acks": "1"}},
        {"when": {"kafka.version": Versions((("4.1", ""),))}},
    ],
)
def test_a_fact_is(changes: dict) -> None:
    other = replace(risk(), **changes)
    assert identity(other) != identity(risk())
    assert fingerprint(orders(), other) != fingerprint(orders(), risk())


def test_the_order_of_facts_is_not() -> None:
    one = replace(risk(), failures=(LAG, POWER), when={"acks": "1", "racks": "2"})
    other = replace(risk(), failures=(POWER, LAG), when={"racks": "2", "acks": "1"})
    assert identity(one) == identity(other)


@pytest.mark.parametrize("part", ["cluster", "topic", "producer", "consumer"])
def test_the_same_risk_of_another_answer_is_another_one(part: str) -> None:
    other = replace(orders(), **{part: "another"})
    assert in_audit(other, risk()) != in_audit(orders(), risk())
    assert fingerprint(other, risk()) != fingerprint(orders(), risk())


def test_results_of_sarif_have_a_fingerprint_each() -> None:
    """An unstated version makes risks that differ in `when`; two folders make two clusters."""
    whole = audited(Request(files=(FILES / "producer.properties", FILES / "consumer.properties")))
    [run] = sarif(whole, version="1")["runs"]
    prints = [result["partialFingerprints"]["risk/v1"] for result in run["results"]]
    assert len(prints) > 20
    assert len(set(prints)) == len(prints)
    every = [in_audit(answer, one) for answer in whole.answers for one in answer.risks]
    assert len(set(every)) == len(every)
