"""Schedules that several tests share."""

from __future__ import annotations

from ackproof_model import (
    Elapsed,
    Injection,
    IsrSize,
    LeaderChanged,
    Progress,
    Role,
)

LEADER = frozenset({Role.LEADER})
FOLLOWERS = frozenset({Role.FOLLOWERS})
ALL = LEADER | FOLLOWERS
ANY_ONE = frozenset({Role.ANY_ONE})
SAME = frozenset({Role.SAME})

ACKED = Progress(outcome="acked", more=False)
MORE_ACKED = Progress(outcome="acked", more=True)


def isr(size: int) -> IsrSize:
    return IsrSize(op="==", size=size)


def kill(targets: frozenset[Role] = LEADER, **changes: object) -> Injection:
    """A kill that is healed once there is another leader, or after 20 s."""
    settings = {
        "fault": "kill",
        "targets": targets,
        "when": (ACKED,),
        "heal_when": (LeaderChanged(),),
        "heal_or_after": 20.0,
    }
    return Injection(**(settings | changes))


CUT = Injection(fault="isolate_replication", targets=LEADER, when=(ACKED, isr(3)))

NO_FAULT = ()
DEMO = (CUT, kill(when=(MORE_ACKED,), or_after=5.0))
UNBOUNDED_DEMO = (CUT, kill(when=(MORE_ACKED,)))
KILL_LEADER = (kill(),)
KILL_FOLLOWERS = (kill(FOLLOWERS, heal_when=()),)
RESTART_LEADER = (Injection(fault="restart", targets=LEADER, when=(ACKED,)),)
RESTART_FOLLOWERS = (Injection(fault="restart", targets=FOLLOWERS, when=(ACKED,)),)
LONG_CUT = (
    Injection(fault="isolate_replication", targets=LEADER, heal_when=(Elapsed(seconds=60),)),
)
TWO_LEADERS = (kill(), kill(when=(isr(3),), heal_when=(), heal_or_after=None))
FOLLOWER_THEN_LEADER = (
    kill(FOLLOWERS, heal_when=(isr(1),), heal_or_after=None),
    kill(when=(isr(2),)),
)
