"""Findings: observations that contradict the model, or the other reader of the final log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.judgement.evidence import Evidence
from ackproof.judgement.expectations import OF_UNFINISHED_WORK
from ackproof.proxy.follower_fetches import EarlyHighWatermark
from ackproof.runs.verdict import REMOVED, Finding, Likelihood, PartAvailability, Step
from ackproof_faults import registered
from ackproof_spark.anomaly import OF_CLIENTS, PREDICTED

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
    if any(registered()[fault.fault].skews_clocks for fault in evidence.faults):
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
