"""Bounds for any order of many perturbations, where the schedule itself cannot be searched.

`losing.json` has the smallest budgets that lose an acked record, searched with the adversary
(`ci/bounds`). `bound` looks a schedule's budget up in them.
"""

from ackproof_model.bounds.answer import Bound as Bound
from ackproof_model.bounds.answer import bound as bound
