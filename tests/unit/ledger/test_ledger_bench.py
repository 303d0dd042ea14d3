"""What the ledger's benchmark makes of what it measures."""

from __future__ import annotations

import contextlib
import json

import pytest

from ackproof.harness.bench import ledger as bench
from ackproof.harness.bench.ledger import LedgerBench, bench_ledger
from ackproof.harness.errors import WorkloadError
from ackproof.harness.ledger import LedgerWriter, Origin


@pytest.fixture
def turns(monkeypatch):
    """Replace cluster and producers: rates as listed, in the order in which they were asked for."""
    order: list[str] = []
    rates = {"plain": iter([100.0, 200.0, 400.0]), "ledgered": iter([90.0, 120.0, 300.0])}

    def ours(spec):
        name = "plain" if spec.ledger is None else "ledgered"
        order.append(name)
        if spec.ledger is not None:
            LedgerWriter(
                spec.ledger, Origin(run_id="r", producer=0, topic=spec.topic, partitions=3)
            ).close()
        return next(rates[name])

    monkeypatch.setattr(bench, "send_all", ours)
    monkeypatch.setattr(bench, "_Topic", lambda *_: contextlib.nullcontext())
    return order


def broker(turns, printed):
    def run(command: list[str]) -> str:
        turns.append("verifiable")
        assert "VerifiableProducer" in command[-1]
        assert "--acks -1" in command[-1]
        return printed

    return run


def summary(*, acked: int) -> str:
    return json.dumps({"name": "tool_data", "acked": acked, "avg_throughput": 30.0}) + "\n"


def test_the_three_ways_take_turns_and_ratios_are_medians_over_turns(turns):
    result = bench_ledger("broker:1", broker(turns, summary(acked=1000)), records=1000)
    assert turns == ["plain", "ledgered", "verifiable"] * 3
    assert result.plain == (100.0, 200.0, 400.0)
    assert result.ledgered_to_plain == pytest.approx(0.75)
    assert result.ledgered_to_verifiable == pytest.approx(4.0)
    assert result.bytes_per_send > 0


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("", "no summary"),
        ("Error: Could not find or load main class", "Could not find"),
        (summary(acked=999), "999 of 1000"),
    ],
)
def test_a_verifiable_producer_that_failed_is_an_error_not_a_rate(turns, printed, says):
    with pytest.raises(WorkloadError, match=says):
        bench_ledger("broker:1", broker(turns, printed), records=1000)


def test_a_single_slow_turn_does_not_decide():
    result = LedgerBench(
        records=1,
        size=32,
        plain=(10.0, 10.0, 10.0),
        ledgered=(7.0, 1.0, 8.0),
        verifiable=(1.0, 1.0, 1.0),
        bytes_per_send=11.0,
    )
    assert result.ledgered_to_plain == pytest.approx(0.7)
