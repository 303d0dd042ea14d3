"""What Kafka promises of acknowledged records, whatever the model knows of its defects.

With `acks=all` a record is acked once all in-sync replicas have it, at least `min.insync.replicas`.
Without an unclean election it is kept while replicas keep what they have written; with eligible
leader replicas (KIP-966) also if fewer than `min.insync.replicas` lose the end of their logs. The
model predicts the losses of known defects, so that they contradict no prediction. They break this
promise all the same. So do replicas in sync whose logs differ, whatever the settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.runs.verdict import Finding, Verdict
from ackproof_model.adversary import AdversaryModel
from ackproof_model.planning import OperationKind, Operations, Plan


def promised(model: AdversaryModel, operations: Operations) -> bool:
    """Whether Kafka promises to keep acked records in a schedule."""
    policy = model.policy
    if policy.acks != "all" or policy.unclean_election:
        return False
    return len(_cut(model, operations)) <= (policy.min_isr - 1 if policy.elr else 0)


def breaks(model: AdversaryModel, plan: Plan) -> bool:
    """Whether a plan breaks a promise of Kafka by the model."""
    return plan.diverged or bool(plan.lost and promised(model, plan.operations))


def _cut(model: AdversaryModel, operations: Operations) -> set[int]:
    """Return the brokers that lose the end of a log."""
    cut = {one.broker for one in operations if one.kind is OperationKind.LOSE_POWER}
    return set() if model.flush_every_record else cut


def broken(model: AdversaryModel, operations: Operations, verdict: Verdict) -> Iterator[Finding]:
    """Yield a finding for each promise of Kafka that a run broke."""
    lost, cut = verdict.observed["lost"], _cut(model, operations)
    if lost and promised(model, operations):
        cuts = f"only {len(cut)} of {model.replicas} brokers" if cut else "no broker"
        cases = ", ".join(sorted({cause.case for cause in verdict.causes}))
        yield _finding(
            verdict,
            "lost",
            f"{lost} records that acks=all acknowledged are lost, although {cuts} lost the "
            f"end of a log ({cases or 'no known cause'})",
        )
    if verdict.observed.get("diverged", 0):
        yield _finding(verdict, "diverged", "replicas in sync hold different records")


def _finding(verdict: Verdict, anomaly: str, explanation: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        predicted=verdict.predicted[anomaly],
        observed=verdict.observed[anomaly],
        explanation=explanation,
    )
