"""`ackproof bench check`: refused options, and comparison of found and planted anomalies."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections import Counter

import pytest
from typer.testing import CliRunner

from ackproof.bench import check
from ackproof.bench.planted import Planted
from ackproof.cli.main import app
from ackproof.errors import AckproofError, DiskError
from ackproof_spark.anomaly import OF_CLIENTS, OF_REPLICAS, Anomaly
from ackproof_spark.checks.comparison import Comparison
from ackproof_spark.tables import LOCATION

_COMMAND = ["bench", "check", "--records", "900000", "--repetitions", "1", "--no-peer"]


def _bench(records: int, *, peer: bool, folder=None) -> check.CheckBench:
    return check.bench_check(
        records=records, seed=1, repetitions=1, peer=peer, folder=folder, say=lambda line: None
    )


def test_too_little_disk_space_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(DiskError, match=r"need 40000\.0 GB, and .* has"):
        _bench(10**12, peer=False, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(DiskError, match="cannot use"):
        _bench(10**6, peer=False, folder=tmp_path / "nowhere")


@pytest.mark.parametrize(("missing", "peer"), [("duckdb", True), ("psutil", False)])
def test_a_missing_library_is_named(monkeypatch, missing, peer):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else found(name)
    )
    with pytest.raises(AckproofError, match=f"needs {missing}.*\n.*pip install {missing}"):
        _bench(10**6, peer=peer)


def without_checks(spark, run_dir):
    """Compare as if the run had no sends."""
    return Comparison(
        sent=0,
        acked=0,
        failed=0,
        unknown=0,
        aborted=0,
        counts=dict.fromkeys(Anomaly, 0),
        telling=[],
    )


@pytest.mark.spark
def test_all_planted_anomalies_are_found_and_the_folder_is_emptied(spark, tmp_path):
    done = CliRunner().invoke(
        app,
        [*_COMMAND, "--json", "--out", str(tmp_path)],
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["exact"]
    assert document["planted"] == document["found"]
    of_the_comparison = {*Anomaly} - {*OF_REPLICAS, *OF_CLIENTS}
    assert Counter(document["found"]).keys() == of_the_comparison
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
def test_the_peers_memory_is_not_counted_as_ours(spark, tmp_path, monkeypatch):
    from ackproof_spark.checks import comparison

    sampling = []

    def ask(run_dir):
        sampling.append("peak memory" in {thread.name for thread in threading.enumerate()})
        return {"anti_join": 1.0, "group_by": 1.0, "peak": 0.0}

    monkeypatch.setattr(check, "_require_libraries", lambda peer: None)
    monkeypatch.setattr(check, "_peer", ask)
    monkeypatch.setattr(comparison, "compare", without_checks)
    monkeypatch.setattr(check, "_found", lambda run_dir: [])
    found = _bench(900_000, peer=True, folder=tmp_path)
    assert sampling == [False]
    assert found.peak_bytes["jvm"] > 0


@pytest.mark.spark
def test_a_planted_anomaly_that_is_not_found_is_a_failure(spark, tmp_path, monkeypatch):
    from ackproof_spark.checks import comparison

    def lost_one(run_dir, *, records, seed):
        (run_dir / LOCATION["ledger"]).mkdir(parents=True)
        (run_dir / LOCATION["final_log"]).mkdir()
        return Planted(anomalies={(Anomaly.LOST, 0, 0, 10**9, 10**9)})

    monkeypatch.setattr(check, "plant", lost_one)
    monkeypatch.setattr(comparison, "compare", without_checks)
    monkeypatch.setattr(check, "_found", lambda run_dir: [])
    done = CliRunner().invoke(
        app,
        [*_COMMAND, "--out", str(tmp_path)],
    )
    assert done.exit_code == 1, done.output
    assert "NOT FOUND: " in done.stdout
