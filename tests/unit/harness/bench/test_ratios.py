"""`ackproof bench all`: each bench once, and the page of the stored ratios."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ackproof.bench import ratios
from ackproof.cli.main import app

sys.path.insert(0, str(Path(__file__).parents[4] / "ci"))
import bench_page


@pytest.fixture
def benches(monkeypatch):
    """Replace every bench by one that says what it measured; return the calls."""
    called: list[str] = []

    def says(name, result):
        def bench(*args, **kwargs):
            called.append(name)
            return result(**kwargs)

        monkeypatch.setattr(ratios, f"bench_{name}", bench)

    says("boot", lambda **_: SimpleNamespace(ratio=0.9, reused_ratio=0.15))
    says("check", lambda **_: SimpleNamespace(to_anti_join=1.5, to_group_by=2.0, exact=True))
    says("ledger", lambda **_: SimpleNamespace(ratios={"ledgered_to_plain": 0.8}))
    says("model", lambda workers: SimpleNamespace(states_per_s=100.0 * workers))
    says("link", lambda **_: SimpleNamespace(throughput=0.99))
    kill = SimpleNamespace(fault="kill", inject_s=(0.2,))
    says("faults", lambda **_: SimpleNamespace(faults=[kill], ratio=lambda times: times[0] / 0.4))
    broker = SimpleNamespace(bootstrap_servers="127.0.0.1:1")
    monkeypatch.setattr(ratios, "fresh_broker", lambda: contextlib.nullcontext((broker, None)))
    monkeypatch.setattr(ratios, "connect", lambda: None)
    monkeypatch.setattr(ratios.os, "cpu_count", lambda: 4)
    return called


def test_each_bench_gives_its_ratios_with_the_machine(benches):
    printed = CliRunner().invoke(app, ["bench", "all", "--json"])
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.stdout)
    assert found["cores"] == 4
    assert found["load"] >= 0
    assert found["ratios"] == {
        "boot": {"fresh": 0.9, "reused": 0.15},
        "check": {"to_anti_join": 1.5, "to_group_by": 2.0},
        "ledger 32": {"ledgered_to_plain": 0.8},
        "ledger 1024": {"ledgered_to_plain": 0.8},
        "model": {"all_cores_to_one": 4.0},
        "link": {"proxied_to_direct": 0.99},
        "faults": {"kill": 0.5},
    }
    assert list(found["ratios"]) == list(ratios.MEANING)
    assert benches == ["boot", "check", "ledger", "ledger", "model", "model", "link", "faults"]


def test_a_comparison_that_missed_something_has_no_ratio(benches, monkeypatch):
    missed = SimpleNamespace(to_anti_join=0.1, to_group_by=0.1, exact=False)
    monkeypatch.setattr(ratios, "bench_check", lambda **_: missed)
    printed = CliRunner().invoke(app, ["bench", "all", "--json"])
    assert json.loads(printed.stdout)["ratios"]["check"] == {}


def test_the_page_is_that_of_the_stored_ratios():
    assert bench_page.PAGE.read_text() == bench_page.page(json.loads(bench_page.STORED.read_text()))


def test_the_page_has_a_column_for_each_of_the_latest_measurements():
    old = {"at": 0, "commit": "old", "cores": 2, "load": 0.5, "ratios": {"boot": {"fresh": 9.0}}}
    new = [
        {"at": 86400 * n, "commit": f"c{n}", "cores": 2, "load": 0.1, "ratios": {"link": {"a": n}}}
        for n in range(1, 9)
    ]
    text = bench_page.page([old, *new])
    assert "`old`" not in text
    assert "9.00" not in text
    assert "1970-01-09, `c8`, 2 cores, load 0.1" in text
    assert "| a | 1.00 | 2.00 | 3.00 | 4.00 | 5.00 | 6.00 | 7.00 | 8.00 |" in text
