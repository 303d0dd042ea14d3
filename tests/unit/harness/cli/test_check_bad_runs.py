"""`check` on run directories as they should not be: each gets its answer, none a false one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.errors import ExitCode, RunDirectoryError
from ackproof.judgement.judge import judge_run
from ackproof.runs.verdict import Word
from ackproof_spark.tables import LOCATION
from command_line import ackproof
from spark_histories import History, parse
from support.run_directories import TOPIC, RunDirectory, at, store

pytestmark = pytest.mark.spark

CLEAN = {
    "sends": [f"{p}/{i} to 0: acked at {2 * i + p}" for i in range(5) for p in (0, 1)],
    "log": [f"0@{2 * i + p}: {p}/{i}" for i in range(5) for p in (0, 1)],
    "ends": ["0: 0-10"],
}


def with_(**changes: Any) -> History:
    return parse(CLEAN | changes)


@pytest.mark.parametrize(
    ("history", "word", "reason"),
    [
        (CLEAN, Word.HOLDS, ""),
        ({"ends": ["0: 0-0"]}, Word.INCONCLUSIVE, "nothing was acked"),
    ],
)
def test_an_empty_topic_proves_nothing_without_acks(
    spark, tmp_path: Path, *, history: dict[str, Any], word: Word, reason: str
) -> None:
    verdict = judge_run(store(tmp_path / "run", parse(history)))
    assert (verdict.verdict, verdict.observed["lost"]) == (word, 0)
    assert reason in verdict.reason


def test_records_of_another_run_in_the_topic_are_phantoms(spark, tmp_path: Path) -> None:
    log = [*CLEAN["log"], "0@10: other 3/4"]
    verdict = judge_run(store(tmp_path / "run", with_(log=log, ends=["0: 0-11"])))
    assert (verdict.verdict, verdict.reason) == (Word.VIOLATED, "1 phantom, none expected")
    (row,) = pq.read_table(tmp_path / "run" / LOCATION["anomalies"]).to_pylist()
    assert row["found"] == "of another run: its producer 3 sequence 4"


def test_without_times_no_availability_holds(spark, tmp_path: Path) -> None:
    history = with_()
    sends = [replace(send, sent=None, resolved=None) for send in history.sends]
    run_dir = store(tmp_path / "run", replace(history, sends=sends))
    scenario = run_dir / "scenario.yaml"
    text = scenario.read_text()
    scenario.write_text(text.replace("diverged: any", "diverged: any, availability: '>= 1%'"))
    verdict = judge_run(run_dir)
    assert verdict.verdict is Word.INCONCLUSIVE
    assert verdict.reason.startswith("producer-0 has 10 acked sends without their times; ")


@pytest.mark.slow
def test_a_step_that_is_not_as_expected_is_told(spark, tmp_path: Path) -> None:
    run = RunDirectory(path=store(tmp_path / "run", with_()))
    run.change_scenario(
        workload={"probe": True},
        expect={"diverged": "any", "steps": {"alone": {"writable": False}}},
        faults=[{"fault": "none", "id": "alone", "heal_after": "8s"}],
    )
    window = {"fault": "none", "target": "all", "parameters": '{"id":"alone"}', "verified": True}
    times = {"injected_at": 1, "verified_at": 1, "healed_at": 9, "recovered_at": 9}
    window |= {key: at(second) for key, second in times.items()}
    run.write("fault_windows", [window])
    attempts = [
        {"topic": TOPIC, "action": action, "at": now, "answered_at": now, "ok": True}
        for now in (at(tenth / 10) for tenth in range(100))
        for action in ("read", "write")
    ]
    run.write("probe", attempts, name="probe-0")
    verdict = judge_run(run.path)
    (step,) = (one for one in verdict.expectations if one.what == "step alone")
    assert (step.wanted, step.observed, step.met) == ("not writable", "writable", False)


@pytest.mark.slow
def test_differing_clocks_change_no_count(spark, tmp_path: Path) -> None:
    """The second producer's clock is an hour behind, and jumps back while a send is under way."""
    history = with_()
    sends = [
        send
        if send.producer == 0
        else replace(send, sent=send.sent - 3600, resolved=send.resolved - 3600.5)
        for send in history.sends
    ]
    verdict = judge_run(store(tmp_path / "run", replace(history, sends=sends)))
    assert verdict.verdict is Word.HOLDS
    assert verdict.observed["lost"] == verdict.observed["reordered"] == 0


def test_a_damaged_run_hides_no_violation_of_another(
    spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The violation: sends were acked, and the topic is empty."""
    violated = store(tmp_path / "violated", with_(log=[], ends=["0: 0-0"]))
    damaged = store(tmp_path / "damaged", with_())
    gone(damaged / "run.json")
    assert ackproof("check", str(damaged), str(violated), "--json") == ExitCode.VIOLATED
    printed = capsys.readouterr()
    (verdict,) = json.loads(printed.out)
    assert verdict["observed"]["lost"] == 10
    assert "10 lost" in verdict["reason"]
    assert "it has no run.json" in printed.err


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def later_record(path: Path) -> None:
    document = json.loads(path.read_text()) | {"schema_version": 2, "new": True}
    path.write_text(json.dumps(document))


def gone(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@pytest.mark.parametrize(
    ("part", "done", "output"),
    [
        ("final_log", gone, "has no table final_log"),
        ("run.json", gone, "it has no run.json"),
        ("prediction.json", gone, "it has no prediction.json"),
        ("run.json", cut, "is damaged"),
        ("run.json", later_record, "has schema version 2; this ackproof reads version 1"),
        ("final_log/part-0.parquet", cut, "damaged or cut short"),
        ("ledger/producer-0.parquet", cut, "damaged or cut short"),
        ("partition_ends.parquet", cut, "damaged or cut short"),
    ],
)
def test_an_incomplete_run_directory_is_refused_by_name(
    spark, tmp_path: Path, part: str, done: Callable[[Path], None], output: str
) -> None:
    run_dir = store(tmp_path / "run", with_())
    done(run_dir / part)
    with pytest.raises(RunDirectoryError) as caught:
        judge_run(run_dir)
    assert output in str(caught.value)
    assert caught.value.exit_code is ExitCode.USAGE
    assert not (run_dir / "verdict.json").exists()


@pytest.mark.slow
def test_a_flipped_bit_is_damage_and_no_anomaly(spark, tmp_path: Path) -> None:
    run_dir = store(tmp_path / "run", with_())
    paths = []
    for table in ("final_log", "ledger", "partition_ends"):
        path = run_dir / LOCATION[table]
        paths += sorted(path.glob("*.parquet"))[:1] if path.is_dir() else [path]
        pq.write_table(
            pq.read_table(paths[-1]), paths[-1], write_page_checksum=True, compression="none"
        )
    assert judge_run(run_dir).verdict is Word.HOLDS
    for path in paths:
        content = path.read_bytes()
        path.write_bytes(flipped(path))
        with pytest.raises(RunDirectoryError, match="damaged"):
            judge_run(run_dir)
        path.write_bytes(content)


def flipped(path: Path) -> bytes:
    """Return a Parquet file with the last bit of its column `partition` changed."""
    index = pq.read_schema(path).get_field_index("partition")
    column = pq.read_metadata(path).row_group(0).column(index)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start + column.total_compressed_size - 1] ^= 1
    return bytes(content)


@pytest.mark.slow
def test_a_run_without_its_final_log_is_inconclusive(spark, tmp_path: Path) -> None:
    run_dir = store(tmp_path / "run", with_())
    gone(run_dir / LOCATION["final_log"])
    gone(run_dir / LOCATION["partition_ends"])
    verdict = judge_run(run_dir)
    assert verdict.verdict is Word.INCONCLUSIVE
    assert (verdict.observed["lost"], verdict.observed["unseen"]) == (0, 10)


def dispute(run_dir: Path, reader: str, offset: int, sequence: int) -> None:
    row = {"topic": TOPIC, "offset": offset, "state": "intact", "producer": 0, "size": 40}
    row |= {"sequence": sequence, "reader": reader}
    RunDirectory(path=run_dir).write("disagreements", [row], name=reader)


@pytest.mark.slow
def test_a_record_that_only_one_reader_read_is_neither_present_nor_lost(
    spark, tmp_path: Path
) -> None:
    """One that both readers miss is lost, whatever else they disagree about."""
    log = [line for line in CLEAN["log"] if line != "0@4: 0/2"]
    run_dir = store(tmp_path / "run", with_(log=log), readers=("kafka", "ackproof-kafka"))
    dispute(run_dir, "kafka", 6, 3)
    verdict = judge_run(run_dir)
    assert (verdict.verdict, verdict.reason) == (Word.VIOLATED, "1 lost, none expected")
    gone(run_dir / LOCATION["disagreements"])
    dispute(run_dir, "ackproof-kafka", 4, 2)
    verdict = judge_run(run_dir)
    output = "orders-0 offset 4 (ackproof-kafka has producer 0 sequence 2 alone)"
    assert verdict.verdict is Word.INCONCLUSIVE
    assert f"readers disagree about 1 offsets: {output}" in verdict.reason
    assert ("disagreement", 1) in [(f.anomaly, f.observed) for f in verdict.findings]
    assert verdict.readers == ["kafka", "ackproof-kafka"]
