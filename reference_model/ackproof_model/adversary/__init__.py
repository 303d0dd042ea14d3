"""What an adversary can do to one partition within its budgets, by exhaustive search.

Beside `ackproof_model.predict`, which asks what one schedule of faults may lead to, this
asks what any schedule may: `search(Question(...))`. `successors` is the specification, `packing`
and `explorer` run the same rules fast.
"""

from ackproof_model.adversary.bounds import PERTURBATIONS, Budgets, Question
from ackproof_model.adversary.search import MAX_STATES, Answer, search

__all__ = ["MAX_STATES", "PERTURBATIONS", "Answer", "Budgets", "Question", "search"]
