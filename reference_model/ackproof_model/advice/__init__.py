"""The results of an operator's steps, from any state of a partition.

`Situation` is the state as disks and the controllers' log have it. `outcome` takes steps of an
operator from there, and searches every order of all that the brokers do by themselves.
"""

from ackproof_model.advice.outcome import Ability, Outcome, merged, outcome, writes_after
from ackproof_model.advice.situation import Offsets, Replica, ReplicaLog, Situation
from ackproof_model.advice.steps import (
    Elect,
    Fail,
    MinIsr,
    Move,
    Replace,
    Start,
    Step,
    Stop,
    down_brokers,
    sequences,
    with_failure,
)

__all__ = [
    "Ability",
    "Elect",
    "Fail",
    "MinIsr",
    "Move",
    "Offsets",
    "Outcome",
    "Replace",
    "Replica",
    "ReplicaLog",
    "Situation",
    "Start",
    "Step",
    "Stop",
    "down_brokers",
    "merged",
    "outcome",
    "sequences",
    "with_failure",
    "writes_after",
]
