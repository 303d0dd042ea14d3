"""A fault of another package appears in lists, schema, predictions and reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.execution.run_state import window_row
from ackproof.judgement.judge import fault_kinds
from ackproof.report.html import write_html
from ackproof.report.terminal import print_run
from ackproof_faults import FaultWindow, inject, registry
from ackproof_spark.forensics.cases import Circumstances, Fault, Settings
from ackproof_spark.forensics.sentences import cause
from ackproof_spark.forensics.terms import Election, Term
from integration.command import clock
from support import synthetic_run as synthetic
from support.fake_cluster import FakeCluster

FILE = '''
"""Brokers drown."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults import Cluster, Evidence, Fault


class Drown(Fault):
    """Drown brokers; heal dries them."""

    name: ClassVar[str] = "drown"
    past_tense: ClassVar[str] = "was drowned"
    fault: Literal["drown"] = "drown"
    proof: ClassVar[str] = "the broker is wet"
    depth: int = Field(default=3, ge=1, description="metres of water")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None: ...

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        return Evidence(text="the broker is wet", facts={"depth": self.depth})

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None: ...
'''

_MAIN = "from ackproof.cli.main import main; main()"

SCENARIO = """\
version: 1
name: wet
topics: {orders: {partitions: 1}}
workload: {topic: orders, settings: {acks: all, enable.idempotence: true}}
faults:
  - {fault: drown, target: 1, depth: 7}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with the installed package: its file and its entry point."""
    folder = tmp_path / "site-packages"
    metadata = folder / "drown-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "drown_plugin.py").write_text(FILE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: drown\nVersion: 1.0\n")
    point = f"[{registry.GROUP}]\ndrown = drown_plugin:Drown\n"
    (metadata / "entry_points.txt").write_text(point)
    return folder


def ackproof(package: Path, *arguments: object) -> str:
    """Return the command's output in a process that can import the package."""
    path = os.pathsep.join([str(package), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def registered(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Find the package in this process, too."""
    monkeypatch.syspath_prepend(str(package))
    registry.registered.cache_clear()
    yield
    registry.registered.cache_clear()
    sys.modules.pop("drown_plugin", None)


def window() -> FaultWindow:
    drown = registry.registered()["drown"]
    fault = drown.model_validate({"fault": "drown", "target": 1, "depth": 7})
    with inject(fault, FakeCluster(), clock=clock) as guard:
        pass
    assert guard.recovered()
    return guard.window


@pytest.mark.slow
def test_plugin_fault_is_listed(package: Path) -> None:
    listed = json.loads(ackproof(package, "faults", "--json"))["drown"]
    assert listed["properties"]["depth"]["description"] == "metres of water"


def test_scenario_schema_has_the_plugin_fault(package: Path) -> None:
    schema = json.loads(ackproof(package, "validate", "--json-schema", "scenario"))
    assert schema["$defs"]["Drown"]["properties"]["depth"]["minimum"] == 1


def test_prediction_with_a_plugin_fault_excludes_nothing(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "wet.yaml"
    path.write_text(SCENARIO)
    (found,) = json.loads(ackproof(package, "predict", path, "--json"))
    assert set(found["predicted"].values()) == {"possible"}
    assert "the fault drown" in json.dumps(found)


def test_window_of_a_plugin_fault_has_evidence_and_facts(registered: None) -> None:
    row = window_row(0, window())
    assert row["evidence"] == "the broker is wet"
    assert json.loads(str(row["facts"])) == {"depth": 7}


def test_explanation_of_a_loss_uses_the_past_tense(registered: None) -> None:
    at = window().injected_at
    term = Term(
        epoch=0,
        leader=1,
        elected_at=at,
        election=Election.FIRST,
        isr_before=(1, 2, 3),
        changes=((at, (1, 2, 3)),),
        start=0,
    )
    kind = fault_kinds()["drown"]
    circumstances = Circumstances(
        settings=Settings(acks="1", kafka_version="4.3.1"),
        acked=term,
        isr=(1, 2, 3),
        next=None,
        offsets=(0, 1),
        faults=(Fault(window=0, fault="drown", nodes=(1,), injected_at=at, until=None, kind=kind),),
    )
    assert "leader 1 was drowned (drown, fault 1)" in cause(circumstances, "{struck}", None)


def test_reports_show_the_plugin_fault(registered: None, tmp_path: Path) -> None:
    row = window_row(0, window())
    run_dir = tmp_path / "run"
    verdict = synthetic.make(run_dir, synthetic.Options(rate=300, acks="1", windows=[row]))
    console = Console(record=True, width=100)
    print_run(console, verdict, run_dir)
    assert "drown" in console.export_text()
    page = tmp_path / "report.html"
    write_html(page, [run_dir], title="wet")
    assert "the broker is wet" in page.read_text()
