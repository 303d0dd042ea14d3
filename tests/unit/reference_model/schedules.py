"""Schedules that several tests share."""

from __future__ import annotations

from ackproof_model import (
    Cuts,
    Effect,
    Elapsed,
    Ends,
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


KILL = Ends()
POWER_LOSS = Ends(log="prefix")
SHUTDOWN = Ends(clean=True)
REPLICATION_CUT = Cuts(channels=("replication",), served=True)


def injection(name: str, *effects: Effect, **settings: object) -> Injection:
    return Injection(fault=name, effects=effects, **settings)


def isr(size: int) -> IsrSize:
    return IsrSize(op="==", size=size)


def kill(targets: frozenset[Role] = LEADER, **changes: object) -> Injection:
    """A kill that is healed once there is another leader, or after 20 s."""
    settings = {
        "fault": "kill",
        "effects": (KILL,),
        "targets": targets,
        "when": (ACKED,),
        "heal_when": (LeaderChanged(),),
        "heal_or_after": 20.0,
    }
    return Injection(**(settings | changes))


CUT = injection("isolate_replication", REPLICATION_CUT, targets=LEADER, when=(ACKED, isr(3)))

NO_FAULT = ()
DEMO = (CUT, kill(when=(MORE_ACKED,), or_after=5.0))
UNBOUNDED_DEMO = (CUT, kill(when=(MORE_ACKED,)))
KILL_LEADER = (kill(),)
KILL_FOLLOWERS = (kill(FOLLOWERS, heal_when=()),)
RESTART_LEADER = (injection("restart", SHUTDOWN, targets=LEADER, when=(ACKED,)),)
RESTART_FOLLOWERS = (injection("restart", SHUTDOWN, targets=FOLLOWERS, when=(ACKED,)),)
LONG_CUT = (
    injection(
        "isolate_replication", REPLICATION_CUT, targets=LEADER, heal_when=(Elapsed(seconds=60),)
    ),
)
TWO_LEADERS = (kill(), kill(when=(isr(3),), heal_when=(), heal_or_after=None))
FOLLOWER_THEN_LEADER = (
    kill(FOLLOWERS, heal_when=(isr(1),), heal_or_after=None),
    kill(when=(isr(2),)),
)

ALONE = tuple(Cuts(channels=(channel,)) for channel in ("replication", "controllers"))
#: The session of a broker that is cut off ends meanwhile, so an old leader returns.
ZOMBIE = (injection("split", *ALONE, targets=LEADER, when=(ACKED,), heal_or_after=10.0),)
