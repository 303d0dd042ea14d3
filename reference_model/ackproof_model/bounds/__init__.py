"""What any order of many perturbations may do: the answer where no schedule can be searched.

`search_minima` finds the smallest budgets that lose an acked record, once, with the adversary
(`ci/bounds`); `bounds.losing.json` keeps them. `bound` looks a schedule's budget up in them.
"""

from ackproof_model.bounds.answer import Bound, bound
from ackproof_model.bounds.stress import NOTHING, Budget, Stress

__all__ = ["NOTHING", "Bound", "Budget", "Stress", "bound"]
