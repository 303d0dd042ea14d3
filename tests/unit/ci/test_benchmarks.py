"""The benchmarks of `ci/lab/bench`: turns, ratios, planted anomalies, and peers that fail."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ackproof.clients.shared_page import Progress
from ackproof.errors import DiskError, WorkloadError
from ackproof.ledger.producer_ledger import LedgerWriter, Origin
from ackproof.own_config.reading import read_texts
from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_spark.anomaly import OF_CLIENTS, OF_REPLICAS, Anomaly
from ackproof_spark.checks.comparison import Comparison
from ackproof_spark.tables import LOCATION
from benchmarks import audit, check, ledger, model, ratios
from benchmarks.__main__ import app
from benchmarks.ledger import WARM, LedgerBench, MemoryWatch, bench_ledger
from benchmarks.peers import Peers, together
from benchmarks.planted import Planted

PERF = (
    "101 records sent, 20.0 records/sec (0.00 MB/sec), 1.0 ms avg latency, 2.0 ms max latency.\n"
    "{records} records sent, {rate} records/sec (3.81 MB/sec), 1.97 ms avg latency, "
    "201.00 ms max latency, 1 ms 50th, 8 ms 95th, 21 ms 99th, 25 ms 99.9th.\n"
)
WAYS = [
    *("plain", "ledgered", "java", "verifiable", "perf_test"),
    *("ledgered_together", "perf_test_together"),
]
CHECK = ["check", "--records", "900000", "--repetitions", "1", "--no-peer", "--out"]


def test_too_little_disk_space_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(DiskError, match=r"need 40000\.0 GB, and .* has"):
        check.bench_check(records=10**12, repetitions=1, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def without_checks(spark, run_dir):
    """Compare as if the run had no sends."""
    return Comparison(
        sent=0,
        acked=0,
        failed=0,
        unknown=0,
        aborted=0,
        counts=dict.fromkeys(Anomaly, 0),
        shown=[],
    )


@pytest.mark.spark
@pytest.mark.slow
def test_all_planted_anomalies_are_found_and_the_folder_is_emptied(spark, tmp_path):
    done = CliRunner().invoke(app, [*CHECK, str(tmp_path)])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["exact"]
    assert document["planted"] == document["found"]
    assert Counter(document["found"]).keys() == {*Anomaly} - {*OF_REPLICAS, *OF_CLIENTS}
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
def test_a_planted_anomaly_that_is_not_found_is_a_failure(spark, tmp_path, monkeypatch):
    from ackproof_spark.checks import comparison

    sampling = []

    def lost_one(run_dir, *, records, seed):
        (run_dir / LOCATION["ledger"]).mkdir(parents=True)
        (run_dir / LOCATION["final_log"]).mkdir()
        return Planted(anomalies={(Anomaly.LOST, 0, 0, 10**9, 10**9)})

    def ask(run_dir):
        sampling.append("peak memory" in {thread.name for thread in threading.enumerate()})
        return {"anti_join": 1.0, "group_by": 1.0, "peak": 0.0}

    monkeypatch.setattr(check, "plant", lost_one)
    monkeypatch.setattr(check, "_peer", ask)
    monkeypatch.setattr(comparison, "compare", without_checks)
    monkeypatch.setattr(check, "_found", lambda run_dir: [])
    done = CliRunner().invoke(app, [*CHECK, str(tmp_path), "--peer"])
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    assert document["missing"]
    assert document["peak_bytes"]["jvm"] > 0
    assert sampling == [False]  # the memory of the peer is not counted as ours


def test_memory_is_recorded_separately_before_and_after_warm_up():
    progress = Progress()
    sender = SimpleNamespace(pid=os.getpid(), progress=lambda: progress)
    watch = MemoryWatch(sender)
    progress = Progress(sent=WARM, acked=WARM)
    assert watch.turn() is False
    assert watch.warm > 1 << 20
    assert watch.later == 0
    warm, progress = watch.warm, Progress(sent=WARM + 1, acked=WARM + 1)
    watch.turn()
    assert watch.later > 1 << 20
    assert watch.warm == warm
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert MemoryWatch(SimpleNamespace(pid=ended.pid)).turn() is True


@pytest.fixture
def turns(monkeypatch):
    """Replace cluster and producers by fixed rates; return the order of the calls."""
    order: list[str] = []
    rates = {
        "plain": iter([100.0, 200.0, 400.0]),
        "ledgered": iter([7.0, 90.0, 120.0, 300.0]),
        "java": iter([24.0, 21.0, 27.0]),
    }

    def ours(specs):
        ledgered = "ledgered" if specs[0].java is None else "java"
        name = "plain" if specs[0].ledger is None else ledgered
        for spec in specs:
            if spec.ledger is not None:
                LedgerWriter(
                    spec.ledger, Origin(run_id="r", producer=0, topic=spec.topic, partitions=3)
                ).close()
        order.append(name if len(specs) == 1 else "ledgered_together")
        return next(rates[name]) if len(specs) == 1 else 60.0

    monkeypatch.setattr(ledger, "_send_together", ours)
    monkeypatch.setattr(ledger, "bench_topic", lambda *_: contextlib.nullcontext())
    return order


def broker(turns, *, acked: int = 200, perf: str = PERF.format(records=1000, rate=30.0)):
    def run(command: list[str]) -> str:
        assert command[:2] == ["sh", "-c"]
        if "VerifiableProducer" in command[-1]:
            turns.append("verifiable")
            assert "--acks -1" in command[-1]
            return json.dumps({"name": "tool_data", "acked": acked, "avg_throughput": 30.0}) + "\n"
        several = command[-1].count("ProducerPerformance")
        turns.append("perf_test" if several == 1 else "perf_test_together")
        assert "--record-size 32" in command[-1]
        assert "acks=all" in command[-1]
        return perf * several

    return Peers(exec_in_broker=run, bootstrap="broker:1")


def measure(peers: Peers) -> LedgerBench:
    return bench_ledger("broker:1", peers, records=1000, size=32, processes=2, repetitions=3)


def test_variants_take_turns_and_ratios_are_medians_over_turns(turns):
    result = measure(broker(turns))
    assert turns == ["ledgered", *WAYS * 3]  # the first warms up, and does not count
    assert result.rates["plain"] == (100.0, 200.0, 400.0)
    assert result.rates["ledgered"] == (90.0, 120.0, 300.0)
    assert result.ratios == {
        "ledgered_to_plain": pytest.approx(0.75),
        "ledgered_to_verifiable": pytest.approx(4.0),
        "ledgered_to_perf_test": pytest.approx(4.0),
        "java_to_perf_test": pytest.approx(0.8),
        "together_to_perf_test": pytest.approx(1.0),
    }
    assert result.bytes_per_send > 0


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        ({"acked": 199}, "verifiable producer got 199 of 200"),
        ({"perf": "Error: Could not find or load main class"}, "perf-test printed no summary"),
        ({"perf": PERF.format(records=999, rate=30.0)}, "perf-test got 999 of 1000"),
    ],
)
def test_a_peer_that_failed_is_an_error_not_a_rate(turns, peer, message):
    with pytest.raises(WorkloadError, match=message):
        measure(broker(turns, **peer))


@pytest.mark.parametrize("printed", ["", "Error: Could not find or load main class", "{}"])
def test_a_verifiable_producer_that_printed_no_summary_is_an_error(printed):
    peers = Peers(exec_in_broker=lambda _: printed, bootstrap="broker:1")
    with pytest.raises(WorkloadError, match="no summary"):
        peers.verifiable("t", 10)


def test_a_missing_summary_of_one_process_is_an_error():
    summary = PERF.format(records=10, rate=30.0)
    peers = Peers(exec_in_broker=lambda _: summary + "java.lang.Exception\n", bootstrap="broker:1")
    with pytest.raises(WorkloadError, match="no summary"):
        peers.perf_test("t", 10, 32, processes=2)


def test_the_rate_of_several_processes_is_that_of_the_slowest_times_their_number():
    assert together([100.0, 60.0, 90.0]) == 180.0


def test_model_bench_reports_states_a_second_and_bytes_a_state(monkeypatch):
    small = ["model", "--workers", "1"]
    printed = CliRunner().invoke(app, [*small, "--records", "1", "--kills", "2"])
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.output)
    assert found["impossible"]
    assert found["states_per_s"] == pytest.approx(found["states"] / found["seconds"])
    assert found["bytes_per_state"] > 0
    easy = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1))
    monkeypatch.setattr(model, "HARDEST", {"one SIGKILL": (easy, easy)})
    found = json.loads(CliRunner().invoke(app, [*small, "--hardest"]).output)
    assert (found["question"], found["impossible"]) == ("one SIGKILL", True)
    assert 0 < found["smaller"]["states"] < found["smaller"]["whole"]


def test_reductions_that_change_an_answer_are_refused(monkeypatch):
    losing = AdversaryModel(kafka_version="4.1.0", acks="1", budgets=Budgets(kills=1))
    assert model.bench_reduction(workers=0, question=losing).whole

    def search(question, workers):
        budgets = Budgets(kills=1) if question.reduction else Budgets()
        return answers(replace(question, budgets=budgets), workers=workers)

    answers = model.search
    monkeypatch.setattr(model, "search", search)
    with pytest.raises(AssertionError, match="change the answer"):
        model.bench_reduction(workers=0, question=losing)


def test_topics_of_all_kinds_are_audited_in_turns_with_a_producer(monkeypatch):
    asked = []

    def cpu_s(*words):
        asked.append([word for word in words if not word.startswith("/")])
        return {1: 0.2, 2: 0.6, 3: 4.6}[len(words)]

    monkeypatch.setattr(audit, "cpu_s", cpu_s)
    printed = CliRunner().invoke(app, ["audit", "--topics", "500", "--repetitions", "2"])
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.stdout)
    assert (found["topics"], found["kinds"]) == (500, 400)
    assert found["producer_to_start"] == pytest.approx(3.0)
    assert found["ms_per_kind"] == pytest.approx(10.0)
    assert asked == [["--version"], ["audit"]] + 2 * [["--version"], ["audit"], ["audit"]]


def test_generated_topics_are_of_400_kinds():
    [own] = read_texts({"topics.txt": "".join(audit.describe(audit.KINDS + 1)).encode()})
    kinds = [
        (one.replication_factor.value, *sorted((key, of.value) for key, of in one.settings.items()))
        for one in own.topics
    ]
    assert len(kinds) == audit.KINDS + 1
    assert len(set(kinds)) == audit.KINDS == 400


def test_commands_are_compiled_once_whatever_the_environment_says(monkeypatch):
    given = []

    def run(words, **options):
        given.append(options["env"])
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(subprocess, "run", run)
    audit.cpu_s("--version")
    assert "PATH" in given[0]
    assert "PYTHONDONTWRITEBYTECODE" not in given[0]


def test_a_command_that_fails_has_no_cpu_time():
    assert audit.cpu_s("--version") > 0
    with pytest.raises(subprocess.CalledProcessError):
        audit.cpu_s("audit", "no-such-file.yml")


@pytest.fixture
def benches(monkeypatch):
    """Replace every bench by a fixed result; return the calls."""
    called: list[str] = []

    def replaced(name, result):
        def bench(*args, **kwargs):
            called.append(name)
            return result(**kwargs)

        monkeypatch.setattr(ratios, f"bench_{name}", bench)

    replaced("boot", lambda **_: SimpleNamespace(ratio=0.9, reused_ratio=0.15))
    replaced("check", lambda **_: SimpleNamespace(to_anti_join=1.5, to_group_by=2.0, exact=True))
    replaced("ledger", lambda **_: SimpleNamespace(ratios={"ledgered_to_plain": 0.8}))
    replaced("model", lambda workers: SimpleNamespace(states_per_s=100.0 * workers))
    replaced("link", lambda **_: SimpleNamespace(throughput=0.99))
    kill = SimpleNamespace(fault="kill", inject_s=(0.2,))
    faults = SimpleNamespace(faults=[kill], ratio=lambda times: times[0] / 0.4)
    replaced("faults", lambda **_: faults)
    fresh = SimpleNamespace(bootstrap_servers="127.0.0.1:1")
    monkeypatch.setattr(ratios, "fresh_broker", lambda: contextlib.nullcontext((fresh, None)))
    monkeypatch.setattr(ratios, "connect", lambda: None)
    monkeypatch.setattr(ratios.os, "cpu_count", lambda: 4)
    return called


def test_each_bench_gives_its_ratios_with_the_machine(benches):
    printed = CliRunner().invoke(app, ["all"])
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.stdout)
    assert found["cores"] == 4
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


def test_a_comparison_that_missed_an_anomaly_has_no_ratio(benches, monkeypatch):
    missed = SimpleNamespace(to_anti_join=0.1, to_group_by=0.1, exact=False)
    monkeypatch.setattr(ratios, "bench_check", lambda **_: missed)
    assert json.loads(CliRunner().invoke(app, ["all"]).stdout)["ratios"]["check"] == {}


def test_the_table_shows_the_latest_of_the_stored_ratios(tmp_path, monkeypatch):
    monkeypatch.setattr(ratios, "STORED", tmp_path / "bench.jsonl")
    old = {"at": 0, "commit": "old", "cores": 2, "load": 0.5, "ratios": {"boot": {"fresh": 9.0}}}
    new = [
        {"at": 86400 * n, "commit": f"c{n}", "cores": 2, "load": 0.1, "ratios": {"link": {"a": n}}}
        for n in range(1, 9)
    ]
    for each in (old, *new):
        ratios.store(each.pop("commit"), each)
    text = ratios.table(ratios.stored())
    assert "`old`" not in text
    assert "9.00" not in text
    assert "1970-01-09, `c8`, 2 cores, load 0.1" in text
    assert "| a | 1.00 | 2.00 | 3.00 | 4.00 | 5.00 | 6.00 | 7.00 | 8.00 |" in text
