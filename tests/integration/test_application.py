"""An application that nobody here controls, as a workload and by what it has logged."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ackproof as ap
from ackproof.cluster.booted import KafkaCluster
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.machine import cache_dir
from command_line import ackproof
from integration import command
from integration.sending import logged

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


RunArm = Callable[[str], dict[str, Any]]


@pytest.fixture
def run_arm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> RunArm:
    """Run one arm of the example in this process; return its verdict."""
    monkeypatch.chdir(command.ROOT)

    def run(arm: str) -> dict[str, Any]:
        code = ackproof(
            *("run", "examples/application.yaml", "--arm", arm, "--out", tmp_path, "--json")
        )
        told = capsys.readouterr()
        assert code == 0, told.out + told.err
        verdict: dict[str, Any] = json.loads(told.out)
        assert verdict["verdict"] == "holds", told.out
        return verdict

    return run


@pytest.mark.slow
def test_an_application_loses_with_acks_1(run_arm: RunArm) -> None:
    """The positive control of the next test: one program, one schedule."""
    losing = run_arm("acks=1")
    assert losing["observed"]["lost"] > 0
    assert losing["predicted"]["lost"] == "certain"
    assert {cause["case"] for cause in losing["causes"]} == {"B2"}


@pytest.mark.slow
def test_an_application_keeps_everything_with_acks_all(run_arm: RunArm) -> None:
    keeping = run_arm("acks=all")
    assert keeping["observed"]["lost"] == 0
    assert keeping["observed"]["acked"] > 1500
    assert keeping["predicted"]["lost"] == "impossible"


def checked(
    cluster: KafkaCluster,
    logs: list[Path],
    capsys: pytest.CaptureFixture[str],
    *options: str,
) -> tuple[int, dict[str, Any]]:
    """Return exit code and verdict of `ackproof check` of acked logs."""
    out = logs[0].parent / "runs"
    capsys.readouterr()
    code = ackproof(
        *("check", *logs, "--from-cluster", cluster.bootstrap_servers, "--out", out, "--json"),
        *options,
    )
    return code, json.loads(capsys.readouterr().out)


def test_what_was_acked_is_found_and_what_is_not_there_is_lost(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "acked.jsonl"
    lines = logged(cluster.bootstrap_servers, log, 0, 300)
    noise = "[main] WARN NetworkClient - Bootstrap broker disconnected\n"
    # A send that was acked where another record stands now: it was overwritten, so it is lost.
    overwritten = {**lines[0], "digest": "0" * 64}
    log.write_text(noise + log.read_text() + json.dumps(overwritten) + "\n")
    code, verdict = checked(cluster, [log], capsys)
    assert (code, verdict["verdict"]) == (1, "violated"), verdict["reason"]
    assert verdict["observed"]["acked"] == 301
    assert (verdict["observed"]["lost"], verdict["observed"]["unseen"]) == (1, 0)
    assert verdict["predicted"]["lost"] == "not modelled"
    assert "faults" in verdict["unobserved"]
    assert [line for line in verdict["unobserved"] if "of acked.jsonl by other programs: 1" in line]
    assert verdict["configuration"] == {"replication_factor": 3}
    assert (tmp_path / "runs" / "latest" / "report.html").is_file()
    assert verdict["causes"][0]["first_offset"] == lines[0]["offset"]
    rows = pq.read_table(tmp_path / "runs" / "latest" / "anomalies").to_pylist()
    [there] = [row["found"] for row in rows if row["anomaly"] == "lost"]
    assert there.startswith(f"offset {lines[0]['offset']} holds ")
    assert "sequence" not in there, "what only ackproof knows it by"
    # The identities of the two acks differ: one has the record there, and the other is lost.
    assert not [line for line in verdict["unobserved"] if "several name one offset" in line]


@pytest.mark.slow
def test_what_is_doubtful_is_unseen_and_says_why(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "acked.jsonl"
    lines = logged(cluster.bootstrap_servers, log, 1000, 100)
    far = {**lines[0], "offset": 10**12, "digest": "1" * 64}
    torn = '{"topic": "orders", "parti'
    twice = json.dumps(lines[5])
    log.write_text("\n".join([log.read_text() + json.dumps(far), twice, torn + twice, twice[:20]]))
    code, verdict = checked(cluster, [log], capsys)
    assert (code, verdict["verdict"]) == (3, "inconclusive")
    assert verdict["observed"]["lost"] == 0
    assert verdict["observed"]["unseen"] == 2
    assert "torn lines, whose sends are not checked: 1 (103)" in verdict["reason"]
    assert "the last line of acked.jsonl is cut short" in verdict["reason"]


def test_an_acked_log_of_another_cluster_is_refused(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "acked.jsonl"
    log.write_text('{"topic": "elsewhere", "partition": 0, "offset": 1, "key": "a"}\n')
    bootstrap = cluster.bootstrap_servers
    assert ackproof("check", log, "--from-cluster", bootstrap, "--out", tmp_path) == 2
    assert "elsewhere-0 is in an acked log, and not at" in capsys.readouterr().err


@pytest.mark.slow
def test_a_ledger_verifies_without_a_cluster_object(cluster: KafkaCluster, tmp_path: Path) -> None:
    """The negative control of the first test, too."""
    logged(cluster.bootstrap_servers, tmp_path / "acked.jsonl", 2000, 20)
    ledger = ap.Ledger(tmp_path / "acked.jsonl", bootstrap_servers=cluster.bootstrap_servers)
    found = ledger.verify()
    ledger.close()
    assert found.holds
    assert found.acked == 20


def built_program(language: str, folder: Path) -> list[str]:
    """Return the command of the example in a language, compiled if it must be."""
    examples = command.ROOT / "examples"
    if language == "java":
        jars = cache_dir() / "jars" / DEFAULT_KAFKA / "*"
        return ["java", "-cp", str(jars), str(examples / "java" / "OrderProducer.java")]
    go = shutil.which("go") or "/usr/local/go/bin/go"
    program = folder / "orders"
    subprocess.run([go, "build", "-o", program, "."], cwd=examples / "go", check=True, timeout=900)
    return [str(program)]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["java", "go"])
def test_the_same_in_languages_that_are_not_ours(language: str, tmp_path: Path) -> None:
    program = built_program(language, tmp_path)
    done = command.ackproof(
        *("run", command.ROOT / "examples/application.yaml", "--out", tmp_path / "runs", "--json"),
        *("--set", f"workload.application.command={json.dumps(program)}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    losing, keeping = command.printed(done)
    assert losing["observed"]["lost"] > 0
    assert keeping["observed"]["lost"] == 0
    assert keeping["observed"]["acked"] > 1500
