"""The comparison of the README, and further use of its run directories."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

import command_line
from ackproof.errors import RunDirectoryError
from ackproof.judgement.judge import judge_run
from ackproof.runs import manifest
from ackproof.runs.verdict import Verdict, Word
from ackproof_spark.tables import FINAL_LOG, LOCATION
from integration.command import printed

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


#: The configurations that lose, with the case of the catalogue that explains it.
LOSING = {"acks=0": "B1", "acks=1": "B2"}
SAFE = "acks=all, min.insync.replicas=2"

Verdicts = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("acks=1", SAFE), id="a losing and a safe configuration"),
        pytest.param(("acks=0", "acks=1", SAFE), id="all", marks=pytest.mark.slow),
    ],
)
def verdicts(request: pytest.FixtureRequest, out: Path) -> Verdicts:
    """The verdict of each compared configuration of the demo."""
    path = out / "acks.yaml"
    scenario = YAML().load(Path("scenarios/acks.yaml"))
    assert list(scenario["matrix"]) == [*LOSING, SAFE]
    scenario["matrix"] = {name: scenario["matrix"][name] for name in request.param}
    # A third of the records shows the same, for less CPU time.
    scenario["workload"] |= {"rate": "500/s", "tail": 700}
    # A busy machine delays heartbeats, and the ISR must be full until the kill. Sessions last 24
    # heartbeats, not 6.
    scenario["cluster"]["settings"]["broker.session.timeout.ms"] = 12_000
    YAML().dump(scenario, path)
    result = command_line.captured("compare", path, "--json", "--out", out)
    assert result.returncode == 0, result.stdout + result.stderr
    return dict(zip(request.param, printed(result), strict=True))


def test_the_model_predicts_the_losses(verdicts: Verdicts) -> None:
    predicted = {name: verdict["predicted"]["lost"] for name, verdict in verdicts.items()}
    assert predicted == {name: "impossible" if name == SAFE else "certain" for name in verdicts}
    assert all(verdict["findings"] == [] for verdict in verdicts.values())


def test_the_model_explains_every_step_of_controller_and_replicas(
    verdicts: Verdicts, out: Path
) -> None:
    for verdict in verdicts.values():
        traced = json.loads((out / verdict["run_id"] / "trace.json").read_text())
        for found in (traced["controller"], *(one["local"] for one in traced["partitions"])):
            assert found["mismatch"] == ""
            assert found["explained"] == found["total"] > 2
        assert verdict["not_checked"] == []
        # The leader was killed and another one elected. Where records are lost, the old leader
        # truncated them.
        [struck] = [one["local"]["steps"] for one in traced["partitions"] if one["partition"] == 0]
        assert struck["leads"] > 1
        assert "log loaded" in struck
        assert verdict["observed"]["lost"] == 0 or "truncates by epoch" in struck


def test_acks_0_and_1_lose_and_acks_all_does_not(verdicts: Verdicts) -> None:
    for name, verdict in verdicts.items():
        observed = verdict["observed"]
        assert (observed["lost"] > 0) == (name in LOSING)
        assert observed["acked"] > 5000
        assert observed["sent"] == observed["acked"] + observed["failed"] + observed["unknown"]
        assert observed["phantom"] == observed["corrupt"] == observed["unseen"] == 0


def test_the_loss_is_deterministic(verdicts: Verdicts, out: Path) -> None:
    """All records that the partition acked between the verified cut and the kill are lost."""
    run_dir = out / verdicts["acks=1"]["run_id"]
    cut, kill = verdicts["acks=1"]["faults"]
    assert cut["verified"]
    assert kill["verified"]
    assert cut["nodes"] == kill["nodes"]
    windows = pq.read_table(run_dir / LOCATION["fault_windows"]).to_pylist()
    states = pq.read_table(run_dir / LOCATION["partition_states"]).to_pylist()
    before_kill = [s for s in states if s["partition"] == 0 and s["at"] < windows[1]["injected_at"]]
    assert len(before_kill[-1]["isr"]) == 3, "the ISR had shrunk before the kill"
    ledger = pq.read_table(run_dir / LOCATION["ledger"])
    at_risk = ledger.filter(
        (pc.field("partition") == 0)
        & (pc.field("outcome") == "acked")
        & (pc.field("sent_at") > pa.scalar(windows[0]["verified_at"]))
        & (pc.field("resolved_at") < pa.scalar(windows[1]["injected_at"]))
    )
    lost = pq.read_table(run_dir / LOCATION["anomalies"]).filter(pc.field("anomaly") == "lost")
    names = set(zip(*(lost[c].to_pylist() for c in ("producer", "sequence")), strict=True))
    assert at_risk.num_rows > 100
    assert {(row["producer"], row["sequence"]) for row in at_risk.to_pylist()} <= names, (
        "an acked record that no follower could have fetched has survived"
    )


def test_every_lost_record_has_its_story(verdicts: Verdicts, out: Path) -> None:
    for name in verdicts.keys() & LOSING.keys():
        assert_explained(verdicts[name], LOSING[name], out)


def assert_explained(verdict: dict[str, Any], case: str, out: Path) -> None:
    killed = verdict["faults"][1]["nodes"]
    causes = verdict["causes"]
    assert sum(cause["count"] for cause in causes) == verdict["observed"]["lost"]
    assert {(cause["case"], cause["window"]) for cause in causes} == {(case, 1)}
    assert all(f"leader {killed[0]} was killed" in cause["sentence"] for cause in causes)
    stories = pq.read_table(out / verdict["run_id"] / LOCATION["lost_stories"]).to_pylist()
    assert len(stories) == verdict["observed"]["lost"]
    for story in stories:
        assert ([story["leader"]], story["leader_epoch"]) == (killed, 0)
        assert (story["next_leader_epoch"], story["election"]) == (1, "clean")
        assert [story["truncated_by"]] == killed
        assert story["truncated_to"] == story["next_leader_start"]
        assert story["offset"] is None or story["offset"] >= story["next_leader_start"]


def test_replicas_of_every_run_agree_and_their_logs_have_no_gaps(verdicts: Verdicts) -> None:
    for verdict in verdicts.values():
        assert (verdict["observed"]["diverged"], verdict["observed"]["gap"]) == (0, 0)


def test_there_is_a_report_and_a_junit_file(verdicts: Verdicts, out: Path) -> None:
    assert (out / "latest").resolve().name.endswith("-comparison")
    page = (out / "latest" / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert len(page) < 10_000_000
    for verdict in verdicts.values():
        assert verdict["run_id"] in page
    suite = ET.parse(out / "latest" / "junit.xml").getroot()
    assert len(list(suite.iter("testcase"))) >= len(verdicts)
    assert not list(suite.iter("failure"))


@pytest.mark.slow
def test_a_stored_run_gives_the_same_verdict_again(
    verdicts: Verdicts, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = out / verdicts["acks=1"]["run_id"]
    before = json.loads((run_dir / "verdict.json").read_text())
    code = command_line.ackproof("check", run_dir, "--json")
    printed_again, errors = capsys.readouterr()
    assert code == 0, errors
    assert json.loads(printed_again) == before


Rows = list[dict[str, Any]]


def remove(rows: Rows, at: int) -> None:
    del rows[at]


def repeat(rows: Rows, at: int) -> None:
    rows.append({**rows[at], "offset": rows[-1]["offset"] + 1})


def swap(rows: Rows, at: int) -> None:
    first = rows[at]
    second = next(row for row in rows[at + 1 :] if row["producer"] == first["producer"])
    first["sequence"], second["sequence"] = second["sequence"], first["sequence"]


def add(rows: Rows, at: int) -> None:
    rows.append({**rows[at], "sequence": 10**9, "offset": rows[-1]["offset"] + 1})


def damage(rows: Rows, at: int) -> None:
    rows[at].update(state="corrupt", producer=None, sequence=None, head="414B5031")


#: What is done to the log, by the anomaly that it makes. Removing shifts rows, so it is the last.
CHANGES: dict[str, Callable[[Rows, int], None]] = {
    "duplicated": repeat,
    "phantom": add,
    "reordered": swap,
    "corrupt": damage,
    "lost": remove,
}


@pytest.mark.slow
def test_anomalies_planted_in_a_clean_run_are_found(
    verdicts: Verdicts, out: Path, tmp_path: Path
) -> None:
    clean = out / verdicts[SAFE]["run_id"]
    run_dir = tmp_path / clean.name
    shutil.copytree(clean, run_dir)
    log = run_dir / LOCATION["final_log"]
    rows = pq.read_table(log).filter(pc.field("partition") == 1).sort_by("offset").to_pylist()
    others = pq.read_table(log).filter(pc.field("partition") != 1)
    named = {}
    for number, anomaly in enumerate(CHANGES, 1):
        row = rows[100 * number]
        named[anomaly] = (row["producer"], row["sequence"])
        CHANGES[anomaly](rows, 100 * number)
    shutil.rmtree(log)
    log.mkdir()
    table = pa.concat_tables([pa.Table.from_pylist(rows, schema=FINAL_LOG), others.cast(FINAL_LOG)])
    pq.write_table(table, log / "planted.parquet")
    with pytest.raises(RunDirectoryError, match=r"manifest\.json"):
        judge_run(run_dir)  # it notices that the run was changed
    manifest.write(run_dir, clean.name)
    verdict = judge_run(run_dir)
    assert found(verdict) == {**dict.fromkeys(CHANGES, 1), "unseen": 0}
    assert verdict.verdict is Word.VIOLATED
    evidence = {
        row["anomaly"]: row for row in pq.read_table(run_dir / LOCATION["anomalies"]).to_pylist()
    }
    assert evidence.keys() >= {*CHANGES, "gap"}  # what the replicas hold was not "read"
    for row in evidence.values():
        assert (row["topic"], row["partition"]) == ("orders", 1)
    for anomaly in ("lost", "duplicated"):
        assert (evidence[anomaly]["producer"], evidence[anomaly]["sequence"]) == named[anomaly]
    [cause] = verdict.causes
    assert (cause.case, cause.count) == ("unexplained", 1)
    assert "still stand in the replicas' segments" in cause.sentence


def found(verdict: Verdict) -> dict[str, int]:
    return {name: verdict.observed[name] for name in (*CHANGES, "unseen")}
