"""What Kafka promises of acknowledged records, whatever the model knows of its defects.

With `acks=all` a record is acked once all in-sync replicas have it, at least `min.insync.replicas`.
Without an unclean election it is kept while these replicas keep what they have written; with
eligible leader replicas (KIP-966) also if fewer than `min.insync.replicas` lose the end of their
logs. A replica that is neither in sync nor eligible may lose its own: it copies the leader's before
it is in sync again. The last known leader may not: it is elected if no replica is eligible any
more. The model predicts the losses of known defects, so that they contradict no prediction. They
break this promise all the same. So do replicas in sync whose logs differ, whatever the settings.
As long as records are kept, those of aborted transactions are not read as committed either, and no
transaction stays open for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise

from ackproof.runs.verdict import Finding, Verdict
from ackproof_model.adversary import AdversaryModel
from ackproof_model.coverage import Pair
from ackproof_model.planning import OperationKind, Plan

#: What Kafka promises not to happen to transactions.
_OF_TRANSACTIONS = {
    "aborted-read": "records of aborted transactions are read as committed",
    "hanging-transaction": "a transaction is open that nobody ends",
}


def survivable(model: AdversaryModel) -> AdversaryModel:
    """Return the model of an adversary that does only what Kafka promises to survive.

    With eligible leader replicas it may still cost too many brokers the end of their logs.
    """
    outside = not model.policy.elr and not model.flush_every_record
    budgets = replace(model.budgets, outside_isr=outside)
    return replace(model, reduction=True, budgets=budgets)


def promise(plan: Plan) -> str:
    """Return why Kafka promises to keep acked records in a schedule, '' if it does not."""
    return _promise(plan, _cut(plan))


def _promise(plan: Plan, cut: Collection[int]) -> str:
    policy = plan.model.policy
    if policy.acks != "all" or policy.unclean_election:
        return ""
    if len(cut) > (policy.min_isr - 1 if policy.elr else 0):
        return ""
    cuts = f"only {len(cut)} of {plan.model.replicas} brokers" if cut else "no broker in sync"
    return f"{cuts} lost the end of a log"


def breaks(plan: Plan) -> bool:
    """Whether a plan breaks a promise of Kafka by the model."""
    return plan.diverged or bool(plan.lost and promise(plan))


def _cut(plan: Plan, certain: Collection[Pair] | None = None) -> set[int]:
    """Return the brokers that lose the end of a log while the partition relies on it.

    certain: what a run of the plan passed through for certain. Unless that has the power loss in
    the planned shape, and no other one is planned in it, the broker may have been in sync.
    """
    losses = [
        (operation.broker, before.plan_state.state.controller, stage.pairs[0])
        for before, stage in pairwise(plan.stages)
        if (operation := stage.operation) and operation.kind is OperationKind.LOSE_POWER
    ]
    planned = Counter(pair for _, _, pair in losses)
    cut = {
        broker
        for broker, now, pair in losses
        if (now.isr | now.elr) >> broker & 1
        or now.last_known == broker
        or (certain is not None and (pair not in certain or planned[pair] > 1))
    }
    return set() if plan.model.flush_every_record else cut


def broken(plan: Plan, verdict: Verdict, certain: Collection[Pair]) -> Iterator[Finding]:
    """Yield a finding for each promise of Kafka that a run broke.

    certain: the pairs of a step and the shapes around it that the run certainly passed through.
    """
    lost, cut = verdict.observed["lost"], _cut(plan, certain)
    if lost and (why := _promise(plan, cut)):
        cases = ", ".join(sorted({cause.case for cause in verdict.causes}))
        yield _finding(
            verdict,
            "lost",
            f"{lost} records that acks=all acknowledged are lost, although {why} "
            f"({cases or 'no known cause'})",
        )
    for anomaly, what in _OF_TRANSACTIONS.items():
        if verdict.observed.get(anomaly, 0) and (why := _promise(plan, cut)):
            yield _finding(verdict, anomaly, f"{what}, although {why}")
    if verdict.observed.get("diverged", 0):
        yield _finding(verdict, "diverged", "replicas in sync hold different records")


def _finding(verdict: Verdict, anomaly: str, explanation: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        predicted=verdict.predicted[anomaly],
        observed=verdict.observed[anomaly],
        explanation=explanation,
    )
