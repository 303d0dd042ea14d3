"""What Kafka promises of acknowledged records, whatever the model knows of its defects.

With `acks=all` a record is acked once all in-sync replicas have it, at least `min.insync.replicas`.
Without an unclean election it is kept while replicas keep what they have written; with eligible
leader replicas (KIP-966) also if fewer than `min.insync.replicas` lose the end of their logs. The
model predicts the losses of known defects, so that they contradict no prediction. They break this
promise all the same.
"""

from __future__ import annotations

from ackproof.runs.verdict import Finding, Verdict
from ackproof_model.adversary import AdversaryModel
from ackproof_model.planning import OperationKind, Operations


def broken(model: AdversaryModel, operations: Operations, verdict: Verdict) -> Finding | None:
    """Return the finding of a run that lost what Kafka promises to keep, else None."""
    lost, policy = verdict.observed["lost"], model.policy
    if not lost or policy.acks != "all" or policy.unclean_election:
        return None
    cut = {one.broker for one in operations if one.kind is OperationKind.LOSE_POWER}
    if model.flush_every_record:
        cut = set()
    if len(cut) > (policy.min_isr - 1 if policy.elr else 0):
        return None
    cuts = f"only {len(cut)} of {model.replicas} brokers" if cut else "no broker"
    cases = ", ".join(sorted({cause.case for cause in verdict.causes}))
    return Finding(
        anomaly="lost",
        predicted=verdict.predicted["lost"],
        observed=lost,
        explanation=f"{lost} records that acks=all acknowledged are lost, although {cuts} lost the "
        f"end of a log ({cases or 'no known cause'})",
    )
