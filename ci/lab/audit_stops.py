"""Writes `ackproof/audit/stops.json`: the crashes after which no replica can lead, or too few ack.

`ackproof audit` looks them up. `ci/reference` calls this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from ackproof.audit.availability import FILE, MOST_REPLICAS, RULES, key_of
from ackproof_model.configuration import Acks
from ackproof_model.planning import Operation, OperationKind, reached, with_records
from ackproof_model.replication.leader import enough_in_sync
from ackproof_model.replication.state import members
from ackproof_model.worst_case.minima import Question

_ALL_ACKS: tuple[Acks, ...] = ("all", "1")


def document() -> dict[str, Any]:
    return {
        key_of(question): {
            f"{'lag ' * lag}{crashes}": stop
            for lag, crashes in product((False, True), range(question.replicas + 1))
            if (lag <= (question.replicas > 1)) and (stop := _stop(question, crashes, lag=lag))
        }
        for question in _questions()
    }


def _questions() -> Iterator[Question]:
    for elr, unclean, acks, replicas in product(
        (False, True), (False, True), _ALL_ACKS, range(1, MOST_REPLICAS + 1)
    ):
        for minimum in range(1, replicas + 1):
            yield Question(
                kafka_version=RULES,
                elr=elr,
                acks=acks,
                replicas=replicas,
                min_insync_replicas=minimum,
                unclean=unclean,
            )


def _stop(
    question: Question, crashes: int, *, lag: bool
) -> tuple[list[int], int, list[int]] | None:
    """Return who crashes, the leader and the ISR afterwards; None if the partition does not stop.

    The model performs the operations, and waits after each until all timers have fired. Broker 0
    leads first. The other replicas differ only in the order of their assignment.
    """
    model, last = with_records(question.model()), question.replicas - 1
    lagging = [
        Operation(kind=OperationKind.LAG, broker=one, settled=one == last)
        for one in (range(1, question.replicas) if lag else ())
    ]
    for first in (0, last):
        order = sorted(range(question.replicas), key=lambda one: (one != first, one))[:crashes]
        kills = [Operation(kind=OperationKind.KILL, broker=one) for one in order]
        stages = reached(model, (*lagging, *kills))
        if stages is None:
            continue
        controller = stages[-1].plan_state.state.controller
        if controller.leader < 0 or not enough_in_sync(model.policy, controller.isr):
            return order, controller.leader, list(members(controller.isr))
    return None


def text() -> str:
    return json.dumps(document(), sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
