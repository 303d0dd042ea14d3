"""A broker's clock, read from what it logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from ackproof_faults import (
    CommandResult,
    FaultError,
    inject,
)
from ackproof_faults.process.skew_clock import DriftClock, SkewClock
from integration.command import clock
from support.fake_cluster import FakeCluster, FakeNetwork


class LoggingNetwork(FakeNetwork):
    """Brokers log by their clocks when they are asked; `stuck` ones never change theirs."""

    stuck: bool = False
    written: str = "%Y-%m-%dT%H:%M:%S"

    def run(self, node: int, script: str) -> CommandResult:
        assert f"/dev/tcp/10.0.0.{node}/9092" in script
        off = 0.0 if self.stuck else self.state.clock_offsets.get(node, 0.0)
        now = datetime.now(UTC)
        drift, since = self.state.clock_drifts.get(node, (0.0, now))
        if not self.stuck:
            off += drift * (now - since).total_seconds()
        now += timedelta(seconds=off)
        stamp = f"{now:{self.written}},{now.microsecond // 1000:03}"
        line = f"[{stamp}] WARN Unexpected error from /10.0.0.{node}; closing (Selector)"
        self.state.logged = [line]
        return CommandResult(exit_status=0, output="")


def logging_cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.offer("network", LoggingNetwork(cluster.state))
    return cluster


@pytest.mark.parametrize("by", ["90m", "-90m", "5s", "-5s"])
@pytest.mark.parametrize("written", ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])
def test_skew_and_its_end_are_verified(by: str, written: str) -> None:
    cluster = logging_cluster()
    cluster.network.written = written  # type: ignore[attr-defined]
    guard = inject(SkewClock(target=[1, 3], by=by), cluster, clock=clock)
    assert guard.window.verified, guard.window.evidence
    assert "broker 3 logs with a clock that is" in guard.window.evidence
    assert set(cluster.clock_offsets) == {1, 3}
    guard.heal()
    assert guard.recovered()
    assert set(cluster.clock_offsets.values()) == {0}


def test_a_clock_that_does_not_move_is_not_verified() -> None:
    cluster = logging_cluster()
    cluster.network.stuck = True  # type: ignore[attr-defined]
    guard = inject(SkewClock(target=1, by="90m"), cluster, clock=clock)
    assert not guard.window.verified
    assert "not 5400 s" in guard.window.evidence


def test_another_skew_is_not_verified() -> None:
    cluster = logging_cluster()
    fault = SkewClock(target=1, by="-90m")
    fault.inject(cluster, [1])
    cluster.clock_offsets[1] = 5400
    with pytest.raises(FaultError, match="not -5400 s"):
        fault.verify(cluster, [1], None)


def test_a_clock_that_stays_wrong_has_not_recovered() -> None:
    cluster = logging_cluster()
    fault = SkewClock(target=1, by="-90m")
    fault.inject(cluster, [1])
    assert not fault.verify_healed(cluster, [1], None)
    fault.heal(cluster, [1], None)
    cluster.recovered = False
    assert not fault.verify_healed(cluster, [1], None)


def test_a_late_log_line_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = logging_cluster()
    fault = SkewClock(target=1, by="5s")
    fault.inject(cluster, [1])
    await_line = cluster.logs.await_line

    def late(broker: int, text: str, *, since: datetime, within_s: float) -> str:
        _Later.by = timedelta(seconds=8)
        return await_line(broker, text, since=since, within_s=within_s)

    class _Later(datetime):
        by = timedelta()

        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + cls.by

    monkeypatch.setattr("ackproof_faults.process.skew_clock.datetime", _Later)
    monkeypatch.setattr(cluster.logs, "await_line", late)
    with pytest.raises(FaultError, match=r"-3\.\d to 5\.\d s ahead"):
        fault.verify(cluster, [1], None)


def test_a_broker_that_is_down_is_not_skewed() -> None:
    cluster = logging_cluster()
    cluster.exits[1] = 137
    guard = inject(SkewClock(target=1, by="90m"), cluster, clock=clock)
    assert not guard.window.verified
    assert cluster.clock_offsets == {}


@pytest.mark.parametrize("by", [0, "1s", "-4s", "90 days", True])
def test_a_skew_that_is_too_small_or_malformed_is_refused(by: object) -> None:
    with pytest.raises(ValidationError):
        SkewClock.model_validate({"target": 1, "by": by})


@pytest.mark.parametrize("per_minute", ["60s", "-30s"])
@pytest.mark.parametrize("injecting_s", [0, 3])
def test_a_drift_is_observed_until_it_is_clear(per_minute: str, injecting_s: int) -> None:
    cluster = logging_cluster()
    fault = DriftClock(target=1, per_minute=per_minute)
    # It began 9 s ago: as injected now, it would take as long to observe.
    before, after = (time - timedelta(seconds=9) for time in fault.inject(cluster, [1]))
    drift, _ = cluster.clock_drifts[1]
    cluster.clock_drifts[1] = drift, before
    began = before, after + timedelta(seconds=injecting_s)
    assert "s off and drifts" in fault.verify(cluster, [1], began).text
    cluster.network.stuck = True  # type: ignore[attr-defined]
    with pytest.raises(FaultError, match=r"s ahead, not -?[3-9]"):
        fault.verify(cluster, [1], began)
    cluster.network.stuck = False  # type: ignore[attr-defined]
    fault.heal(cluster, [1], began)
    assert cluster.clock_drifts[1][0] == 0
    assert fault.verify_healed(cluster, [1], began)


@pytest.mark.parametrize("per_minute", [0, "2s", "61s", "-31s", "5"])
def test_a_drift_that_is_too_slow_or_too_fast_is_refused(per_minute: object) -> None:
    with pytest.raises(ValidationError):
        DriftClock.model_validate({"target": 1, "per_minute": per_minute})
