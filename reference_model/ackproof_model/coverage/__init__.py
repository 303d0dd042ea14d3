"""What an adversary can reach, as a denominator for what runs have passed through.

`reached` searches every state within a budget. It reports the pairs of steps and changes of a
partition's shape, so that schedules, runs and the model can be compared by them.
"""

from ackproof_model.coverage.pairs import Pair, Shape, pair_of, shape_of
from ackproof_model.coverage.reached import BYTES_A_STATE, Reached, reached

__all__ = ["BYTES_A_STATE", "Pair", "Reached", "Shape", "pair_of", "reached", "shape_of"]
