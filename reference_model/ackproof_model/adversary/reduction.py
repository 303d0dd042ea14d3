"""What the search leaves out, and why nothing is lost by it.

Four reductions; tests hold searches with them against searches without.

- Decided (`decided`): at most shrinks are left of the budgets, a living leader leads, no other
  broker believes that it does, and the leader's log has all that was acked. Nothing can depose
  that leader any more (only perturbations end processes or sessions; a shrink takes followers
  only), nobody else can append or ack, and it truncates nothing. So no loss follows, and the search
  ends there.
- Ack first: where a record may be acked, that is the only step taken. An ack changes nothing but
  what counts as acked, and nothing is lost that would not be lost with more acked. With more than
  one record, a shortest trace may hold acks it could do without.
- That nobody leads is learned by nobody (`replicas.behind`): a broker that has not learned it can
  do all that one that has can, and need do no more.
- An epoch's start offset is dropped once the high watermark has passed it
  (`replicas.reached_start`), and what no rule of the version reads is not kept.

There is no symmetry reduction: replicas are elected in assignment order (`controller`), so two
followers are not alike.
"""

from __future__ import annotations

from ackproof_model.adversary.perturbations import DEPOSING
from ackproof_model.adversary.state import State
from ackproof_model.replication.state import NOBODY


def decided(state: State) -> bool:
    """Whether no loss can follow any more."""
    leader = state.partition.controller.leader
    if leader == NOBODY or (state.left[-1] and any(state.left[kind] for kind in DEPOSING)):
        return False
    chief = state.replicas[leader]
    rivals = any(one.leader == n for n, one in enumerate(state.replicas) if n != leader)
    return chief.alive and not rivals and not state.writes.acked & ~chief.log
