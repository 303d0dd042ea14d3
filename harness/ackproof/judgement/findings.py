"""Findings: observations that contradict the model, or the other reader of the final log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from ackproof.judgement.evidence import Evidence, by_partition, micros
from ackproof.judgement.expectations import OF_UNFINISHED_WORK
from ackproof.judgement.partition_trace import clock_slack
from ackproof.ledger import probed_ends
from ackproof.observation.broker_log import Kind
from ackproof.proxy.follower_fetches import EarlyHighWatermark
from ackproof.runs.verdict import REMOVED, Finding, Likelihood, PartAvailability, Step
from ackproof_faults import registered
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_spark.anomaly import OF_CLIENTS, PREDICTED, Anomaly
from ackproof_spark.tables import LOCATION

#: Seconds that a step must last: the model assumes that everything that is due has happened.
SETTLED_S = 5.0

#: How many offsets that readers disagree about a message lists.
_LISTED = 3


def contradictions(
    predicted: Mapping[str, Likelihood], observed: Mapping[str, int], *, conclusive: bool
) -> list[Finding]:
    """Return the anomalies whose count contradicts the prediction.

    An impossible anomaly that was observed is always a finding, except `OF_UNFINISHED_WORK`. These,
    and the absence of a certain anomaly, are findings only in a conclusive run: the prediction
    assumes that the whole schedule was executed.
    """
    findings = []
    for anomaly in (*map(str, (*PREDICTED, *OF_CLIENTS)), REMOVED):
        if anomaly not in predicted:  # not applicable, or unknown to the ackproof that predicted
            continue
        likelihood, count = predicted[anomaly], observed.get(anomaly, 0)
        definite = conclusive or anomaly not in OF_UNFINISHED_WORK
        if likelihood == "impossible" and count > 0 and definite:
            explanation = f"no path of the model leads to this, yet {count} were observed"
        elif likelihood == "certain" and count == 0 and conclusive:
            explanation = "every path of the model leads to this, yet none was observed"
        else:
            continue
        findings.append(
            Finding(anomaly=anomaly, predicted=likelihood, observed=count, explanation=explanation)
        )
    return findings


def of_availability(
    predicted: Sequence[PartAvailability],
    steps: Sequence[Step],
    *,
    settling_s: float,
    conclusive: bool,
) -> list[Finding]:
    """Return where the probe contradicts the prediction for a part of the schedule.

    An action that succeeded although it cannot is always a finding. An action that failed although
    it can is a finding only in a conclusive run. The prediction is about the time after the
    brokers' timers, which take `settling_s`: steps that end less than `SETTLED_S` later are not
    compared.
    """
    findings: list[Finding] = []
    likelihood: Likelihood
    for step in steps:
        parts = [
            part for part in predicted if (part.begun, part.healed) == (step.begun, step.healed)
        ]
        if not parts or (step.end - step.begin).total_seconds() < settling_s + SETTLED_S:
            continue
        for state in step.partitions:
            for ability in ("readable", "writable"):
                words = {getattr(part, ability) for part in parts}
                observed = getattr(state, ability)
                where = f"{state.topic}-{state.partition}, {parts[0].part}"
                if words == {"cannot"} and observed == "yes":
                    likelihood, count, why = "impossible", 1, f"{where}: the probe could"
                elif words == {"can"} and observed == "no" and conclusive:
                    likelihood, count, why = "certain", 0, f"{where}: the probe could not"
                else:
                    continue
                findings.append(
                    Finding(anomaly=ability, predicted=likelihood, observed=count, explanation=why)
                )
    return findings


def of_high_watermarks(evidence: Evidence) -> list[Finding]:
    """Return the high watermarks of leaders that a member of the ISR had not fetched up to.

    A follower outside the ISR may be behind. Where clocks were set, the ISR then is unknown.
    """
    if _clocks_were_set(evidence):
        return []
    states = evidence.rows("partition_states")
    return [
        Finding(
            anomaly="early-high-watermark",
            predicted="impossible",
            observed=1,
            explanation=f"{seen.topic}-{seen.partition}: the high watermark of leader "
            f"{seen.leader} was {seen.high_watermark} in epoch {seen.leader_epoch}, and broker "
            f"{seen.follower}, in the ISR, had fetched up to {seen.fetched}",
        )
        for seen in evidence.record.early_high_watermarks
        if seen.follower in _isr_at(states, seen)
    ]


def _clocks_were_set(evidence: Evidence) -> bool:
    return any(registered()[fault.fault].skews_clocks for fault in evidence.faults)


def of_listed_ends(evidence: Evidence) -> list[Finding]:
    """Return the ends that leaders told clients at or below an offset acked before with acks=all.

    Only if the model excludes that acked records are lost. A broker that does not know yet that it
    leads no more, or again, may answer an old end.
    """
    lost = evidence.prediction.predicted.get(Anomaly.LOST)
    comparable = lost == "impossible" and not _clocks_were_set(evidence)
    if not comparable or not evidence.has("ledger"):
        return []
    ends = [
        *map(asdict, evidence.record.listed_ends),
        *probed_ends.recorded(evidence.clients / probed_ends.NAME),
    ]
    found = []
    for place, asked in by_partition(ends).items():
        topic = place[0]
        sends = evidence.scenario.sends.get(topic)
        if sends is None or str(sends.settings.acks) in ("0", "1"):
            continue
        for one, highest in zip(asked, _highest_acked(evidence, place, asked), strict=True):
            leader = _leader_that_answered(evidence, place, one) if one["end"] <= highest else None
            if leader is not None:
                found.append(
                    Finding(
                        anomaly="end-below-ack",
                        predicted="impossible",
                        observed=1,
                        explanation=f"{topic}-{place[1]}: leader {leader} answered that "
                        f"the log ends at {one['end']} (ListOffsets), after offset {highest} had "
                        "been acked",
                    )
                )
    return found


def _highest_acked(
    evidence: Evidence, place: TopicPartition, asked: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Return the highest offset that was acked before each time, -1 if none was."""
    condition = (ds.field("topic") == place[0]) & (ds.field("partition") == place[1])
    condition &= (ds.field("outcome") == "acked") & ds.field("offset").is_valid()
    columns = ["resolved_at", "offset"]
    acks = ds.dataset(evidence.run_dir / LOCATION["ledger"]).to_table(
        columns=columns, filter=condition
    )
    acks = acks.sort_by("resolved_at")
    highest = np.maximum.accumulate(acks["offset"].to_numpy())
    resolved = acks["resolved_at"].cast(pa.int64()).to_numpy()
    indexes = np.searchsorted(resolved, [micros(one["at"]) for one in asked])
    return [int(highest[index - 1]) if index else -1 for index in indexes]


def _leader_that_answered(
    evidence: Evidence, place: TopicPartition, answer: Mapping[str, Any]
) -> int | None:
    """Return who answered, if it knew that it led when it was asked; else None.

    The proxy sees which broker answers, the probe in which leader epoch.
    """
    if "broker" in answer:
        leader = _leader_at(evidence, place, answer["at"])
        return leader if leader == answer["broker"] else None
    slack = clock_slack(evidence)
    now = None if slack is None else _state_at(evidence, place, answer["at"] + slack)
    return now["leader"] if now and now["leader_epoch"] == answer["leader_epoch"] else None


def _state_at(evidence: Evidence, place: TopicPartition, at: datetime) -> Mapping[str, Any] | None:
    every = by_partition(evidence.rows("partition_states")).get(place, ())
    states = [state for state in every if state["at"] <= at]
    return max(states, key=lambda state: state["metadata_offset"], default=None)


def _leader_at(evidence: Evidence, place: TopicPartition, at: datetime) -> int | None:
    """Return the leader that the controllers had elected, if its log says so too; else None."""
    now = _state_at(evidence, place, at)
    if now is None:
        return None
    roles = [
        event
        for event in by_partition(evidence.rows("broker_events")).get(place, [])
        if event["broker"] == now["leader"]
        and event["kind"] in (Kind.LEADER, Kind.FOLLOWER)
        and event["at"] <= at
    ]
    last = max(roles, key=lambda event: event["at"], default=None)
    knows = last and (last["kind"], last["leader_epoch"]) == (Kind.LEADER, now["leader_epoch"])
    return now["leader"] if knows else None


def _isr_at(states: Sequence[Mapping[str, Any]], seen: EarlyHighWatermark) -> Sequence[int]:
    then = [
        state
        for state in states
        if (state["topic"], state["partition"]) == (seen.topic, seen.partition)
        and state["at"] <= seen.at
    ]
    return max(then, key=lambda state: state["metadata_offset"])["isr"] if then else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreements:
    """Records that only one of the two readers of the final log returned.

    Such a record proves neither presence nor loss: one of the two clients has a bug, or a broker
    answers them differently. `rows` are those of `tables.DISAGREEMENTS`.
    """

    rows: Sequence[Mapping[str, Any]]

    @property
    def _offsets(self) -> list[tuple[str, int, int]]:
        return sorted({_position(row) for row in self.rows})

    @property
    def reasons(self) -> list[str]:
        """The reason why the run is inconclusive; empty if the readers agree."""
        if not self.rows:
            return []
        offsets = self._offsets
        listed = ", ".join(self._describe(*offset) for offset in offsets[:_LISTED])
        more = ", …" if len(offsets) > _LISTED else ""
        return [f"readers disagree about {len(offsets)} offsets: {listed}{more}"]

    @property
    def findings(self) -> list[Finding]:
        return [
            Finding(
                anomaly="disagreement",
                predicted="impossible",
                observed=len(self._offsets),
                explanation=reason,
            )
            for reason in self.reasons
        ]

    def undisputed(
        self, observed: Mapping[str, int], anomalies: Sequence[Mapping[str, Any]]
    ) -> dict[str, int]:
        """Return `observed` without the rows of `anomalies` that depend on a disputed record."""
        counts = dict(observed)
        offsets = set(self._offsets)
        sends = {_send(row) for row in self.rows if row["producer"] is not None}
        for row in anomalies:
            if _position(row) in offsets or _send(row) in sends:
                counts[row["anomaly"]] -= 1
        return counts

    def _describe(self, topic: str, partition: int, offset: int) -> str:
        records = [
            f"{row['reader']} has {_record(row)}"
            for row in self.rows
            if _position(row) == (topic, partition, offset)
        ]
        only = " alone" if len(records) == 1 else ""
        return f"{topic}-{partition} offset {offset} ({'; '.join(records)}{only})"


def disagreements(evidence: Evidence) -> Disagreements:
    return Disagreements(rows=evidence.rows("disagreements"))


def _position(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def _send(row: Mapping[str, Any]) -> tuple[str, int, int, int]:
    return row["topic"], row["partition"], row["producer"], row["sequence"]


def _record(row: Mapping[str, Any]) -> str:
    if row["producer"] is None:
        return f"a {row['state']} record"
    return f"producer {row['producer']} sequence {row['sequence']}"
