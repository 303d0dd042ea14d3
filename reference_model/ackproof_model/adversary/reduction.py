"""The states that the search leaves out, and why that hides no loss.

There are four reductions; tests compare searches with and without them.

- Decided (`decided`): no budget but shrinks is left, the leader runs, no other broker believes that
  it leads, and the leader's log has every acked record. Nothing can depose that leader any more
  (only perturbations end processes or sessions; a shrink removes followers only), no other broker
  can append or ack, and the leader truncates nothing. So no loss follows, and the search ends
  there.
- Ack first: where a record may be acked, that is the only step. An ack changes only the set of
  acked records, and a larger set hides no loss. With more than one record, a shortest trace may
  contain acks that it does not need.
- No broker learns that there is no leader (`replicas.behind`): a broker that has not learned it can
  do everything that one that has learned it can, and nothing forces it to do more.
- An epoch's start offset is dropped once the high watermark has passed it
  (`replicas.reached_start`), and state that no rule of the version reads is not stored.

There is no symmetry reduction: replicas are elected in assignment order (`controller`), so two
followers are not interchangeable.
"""

from __future__ import annotations

from ackproof_model.adversary.perturbations import DEPOSING
from ackproof_model.adversary.state import State
from ackproof_model.replication.state import NOBODY


def decided(state: State) -> bool:
    """Whether no loss can follow from a state."""
    leader = state.partition.controller.leader
    if leader == NOBODY or (state.left[-1] and any(state.left[kind] for kind in DEPOSING)):
        return False
    leading = state.replicas[leader]
    rivals = any(one.leader == n for n, one in enumerate(state.replicas) if n != leader)
    return leading.alive and not rivals and not state.writes.acked & ~leading.records
