"""Searches exhaustively whether an adversary with limited budgets can make acked records disappear.

`ackproof_model.predict` searches one schedule of faults; `search(AdversaryModel(...))` searches
every schedule within budgets. `successors` is the specification; `packing` and `explorer` run the
same rules fast.
"""

from ackproof_model.adversary.search import MAX_STATES, AdversaryResult, search
from ackproof_model.adversary.state import AdversaryModel, Budgets

__all__ = ["MAX_STATES", "AdversaryModel", "AdversaryResult", "Budgets", "search"]
