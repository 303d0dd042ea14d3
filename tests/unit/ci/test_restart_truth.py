"""The comparison of `ci/lab/advise-truth restarts`."""

from __future__ import annotations

from typing import Any

import pytest
from restart_truth import contradicts, table


def row(**changes: Any) -> dict[str, Any]:
    same = {"acks": "1", "rule": True, "may_lose": False, "stops_writes": False}
    return {**same, "missing": 0, "written": True, **changes}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, False),
        ({"missing": 3}, True),
        ({"missing": 3, "may_lose": True}, False),
        ({"may_lose": True}, False),
        ({"written": False}, True),
        ({"written": False, "stops_writes": True}, False),
        ({"missing": 3, "stops_writes": True, "written": False}, True),
    ],
)
def test_advice_is_contradicted_by_what_it_excludes(changes, wrong) -> None:
    assert contradicts(row(**changes)) == wrong


def test_the_table_counts_how_often_the_rule_was_wrong() -> None:
    rows = [
        row(),
        row(missing=2, may_lose=True),
        row(missing=2),
        row(rule=False),
        row(rule=False, stops_writes=True, written=False),
    ]
    *counted, safe, unsafe, advice = table([{"partitions": rows}]).splitlines()
    assert counted[2:] == [
        "| 1 | not safe | may be restarted | 1 | 0 | 0 |",
        "| 1 | not safe | stops writes | 1 | 0 | 1 |",
        "| 1 | safe | may be restarted | 2 | 1 | 0 |",
        "| 1 | safe | may lose | 1 | 1 | 0 |",
    ]
    assert "safe of 3, of which 2 lost a record and 0 could not" in safe
    assert "not safe of 2, of which 1 lost nothing" in unsafe
    assert "contradicted by 1." in advice
