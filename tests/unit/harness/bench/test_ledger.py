"""The benchmark of the ledger with fake producers."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ackproof.bench import ledger as bench
from ackproof.bench.ledger import LedgerBench, bench_ledger
from ackproof.bench.peers import Peers, together
from ackproof.cli.main import app
from ackproof.errors import WorkloadError
from ackproof.ledger.producer_ledger import LedgerWriter, Origin

PERF = (
    "101 records sent, 20.0 records/sec (0.00 MB/sec), 1.0 ms avg latency, 2.0 ms max latency.\n"
    "{records} records sent, {rate} records/sec (3.81 MB/sec), 1.97 ms avg latency, "
    "201.00 ms max latency, 1 ms 50th, 8 ms 95th, 21 ms 99th, 25 ms 99.9th.\n"
)
SAID: list[str] = []
WAYS = [
    *("plain", "ledgered", "java", "verifiable", "perf_test"),
    *("ledgered_together", "perf_test_together"),
]


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

    monkeypatch.setattr(bench, "_send_together", ours)
    monkeypatch.setattr(bench, "bench_topic", lambda *_: contextlib.nullcontext())
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
    return bench_ledger(
        "broker:1", peers, records=1000, size=32, processes=2, repetitions=3, say=SAID.append
    )


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
    assert SAID[0] == "32 bytes, turn 1 of 3, plain: 100 records/s"
    assert len(SAID) == len(WAYS) * 3


@pytest.mark.parametrize(
    ("peer", "says"),
    [
        ({"acked": 199}, "verifiable producer got 199 of 200"),
        ({"perf": "Error: Could not find or load main class"}, "perf-test printed no summary"),
        ({"perf": PERF.format(records=999, rate=30.0)}, "perf-test got 999 of 1000"),
    ],
)
def test_a_peer_that_failed_is_an_error_not_a_rate(turns, peer, says):
    with pytest.raises(WorkloadError, match=says):
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


def test_a_single_slow_turn_does_not_change_the_median():
    result = LedgerBench(
        records=1,
        size=32,
        processes=1,
        rates=dict.fromkeys(WAYS, (10.0, 10.0, 10.0)) | {"ledgered": (7.0, 1.0, 8.0)},
        bytes_per_send=11.0,
    )
    assert result.ratios["ledgered_to_plain"] == pytest.approx(0.7)


@pytest.fixture
def command(monkeypatch):
    """Run `ackproof bench ledger` without a cluster; the rate of every variant is 10."""

    def measured(bootstrap, peers, *, records, size, processes, repetitions, say):
        rates = dict.fromkeys(WAYS, (10.0,) * repetitions)
        return LedgerBench(
            records=records, size=size, processes=processes, rates=rates, bytes_per_send=11.0
        )

    cluster = SimpleNamespace(bootstrap_servers="broker:1")
    monkeypatch.setattr(bench, "bench_ledger", measured)
    monkeypatch.setattr(bench, "fresh_broker", lambda: contextlib.nullcontext((cluster, None)))
    return lambda *options: CliRunner().invoke(app, ["bench", "ledger", *options])


def test_the_command_prints_rates_and_ratios_of_each_size(command):
    printed = command("--repetitions", "2").output
    assert "32 bytes, 1,000,000 records, 2 processes at once" in printed
    assert "1024 bytes, 262,144 records" in printed
    rows = [" ".join(line.split()) for line in printed.splitlines()]
    assert "perf test together, records/s: 10 10" in rows
    assert "together / perf test: 1.00" in rows


def test_the_json_output_contains_all_values(command):
    found = json.loads(command("--size", "64", "--json").output)
    assert [one["size"] for one in found] == [64]
    assert set(found[0]["rates"]) == set(WAYS)
    assert found[0]["ratios"]["ledgered_to_plain"] == 1.0


def test_a_value_too_short_for_its_header_is_refused(command):
    refused = command("--size", "20")
    assert refused.exit_code == 2
    assert "32" in refused.output
