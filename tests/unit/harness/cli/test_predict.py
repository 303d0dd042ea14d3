"""`ackproof predict --compare-protocols` prints what both kinds of replication survive."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ackproof.cli.main import app
from ackproof_model.protocols import comparison

SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks-all.yaml"


@pytest.fixture(autouse=True)
def only_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failures take half a minute."""
    monkeypatch.setattr(comparison, "compare", functools.partial(comparison.compare, most=1))


def printed(*options: str) -> str:
    result = CliRunner().invoke(app, ["predict", str(SCENARIO), "--compare-protocols", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_is_printed_on_request() -> None:
    rows = json.loads(printed("--json"))
    assert [row["protocol_name"] for row in rows] == [
        "ISR of 2, min.insync.replicas=1",
        "ISR of 3, min.insync.replicas=2",
        "majority of 3, fsynced",
        "majority of 3, not fsynced",
    ]
    assert {row["kafka_version"] for row in rows} == {"4.3.1"}
    assert [row["lost"]["1 power loss and 1 lag"] for row in rows] == [True, False, False, True]


def test_a_table_is_printed_by_default() -> None:
    told = printed()
    assert "can lose to: 1 power loss and 1 lag" in told
    assert "loses nothing to: 1 SIGKILL; 1 SIGKILL and 1 lag" in told
