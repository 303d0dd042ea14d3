"""Steps of schedules, and observations for conditions."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Annotated, Any

from pydantic import TypeAdapter

from ackproof_faults import Cluster, FaultWindow, SendCounts, StepList
from ackproof_faults.conditions.observation import Observation, ReferencePoint

STEPS: TypeAdapter[list[Any]] = TypeAdapter(Annotated[list[Any], StepList])


def kill(target: object = 1, **more: object) -> dict[str, object]:
    return {"fault": "kill", "target": target, **more}


def cut(target: object = 1, **more: object) -> dict[str, object]:
    return {"fault": "isolate_replication", "target": target, **more}


def observed(
    *,
    acked: int = 0,
    acked_more: int = 0,
    sent: int = 0,
    sent_more: int = 0,
    size: int | None = 3,
    members: tuple[int, ...] = (),
    eligible: tuple[int, ...] | None = (),
    led_last: int | None = None,
    leads: int | None = 1,
    led: int | None = 1,
    leader_epoch: int | None = 0,
    unchanged_s: float | None = None,
    group_lag: int = 0,
    ends: tuple[int | None, ...] = (1000, 1000, 1000),
    log: tuple[int, str] = (0, ""),
    event: tuple[str, str] = ("", ""),
    seconds: float = 0.0,
    acquired: int = 0,
    acquired_more: int = 0,
) -> Observation:
    """Return an observation of orders-0, `seconds` after the mark; `led` was its leader there."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = SimpleNamespace(
        broker_ids=lambda: [1, 2, 3],
        leader=lambda topic, partition: leads,
        leaderless=lambda topic, partition: leads is None and size is not None,
        isr=lambda topic, partition: None if size is None else members or tuple(range(size)),
        elr=lambda topic, partition: eligible,
        last_known_leader=lambda topic, partition: led_last,
        log_end=lambda *_: None if leader_epoch is None else (1000, leader_epoch),
        committed=lambda group, *_: 1000 - group_lag if group == "readers" else None,
    )
    history: Any = SimpleNamespace(
        high_watermark_unchanged_s=lambda topic, partition: unchanged_s,
        log_contains=lambda broker, text, since: broker == log[0] and text in log[1],
    )
    times = {"began": "verified_at", "ended": "healed_at", "recovered": "recovered_at"}
    window = FaultWindow(
        fault="",
        target="",
        nodes=(),
        parameters="",
        trigger="",
        injected_at=start,
        **({times[event[1]]: start} if event[1] else {}),
    )
    return Observation(
        cluster=Cluster(
            metadata=metadata,
            volumes=SimpleNamespace(log_end=lambda broker, *_: ends[broker - 1]),
        ),
        history=history,
        sends=SendCounts(sent=sent, acked=acked, acquired=acquired),
        now_s=seconds,
        reference=ReferencePoint(
            sends=SendCounts(
                sent=sent - sent_more, acked=acked - acked_more, acquired=acquired - acquired_more
            ),
            monotonic_s=0.0,
            at=start,
            leaders={("orders", 0): led},
        ),
        windows=[(event[0], window)],
    )
