"""Partition traces that refute each guard of `partition_replay`.

A few correct traces of partitions, and variants that a wrong Kafka or a damaged disk would leave.
Each variant is refuted by one guard, and is explained without that guard. `ci/lab/mutants` prints
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ackproof_model.replication.leader import high_watermark
from ackproof_model.validation import partition_replay, partition_trace, replication_rules
from ackproof_model.validation.partition_replay import replay
from ackproof_model.validation.partition_trace import (
    Acked,
    Election,
    Ends,
    Fetches,
    Follows,
    Leads,
    Loads,
    Log,
    Shrinks,
    Step,
    Trace,
    Truncates,
)
from ackproof_model.validation.replication_rules import ReachedOffsets, ReplicationRules
from specifications.mutation_score import Mutation
from specifications.wrong_rules import with_wrong

ALL = (1, 2, 3)
RULES = ReplicationRules(min_isr=2)


def log(*runs: tuple[int, int], end: int) -> Log:
    """Return a log. runs: each epoch and its first offset."""
    return Log(runs, end)


def starts(broker: int, leader: int = 1) -> list[Step]:
    """Return the steps of a broker for a partition that was just created."""
    if broker == leader:
        return [Leads(broker=broker, end=0, epoch=0, isr=ALL)]
    return [
        Follows(broker=broker, end=0, epoch=0, leader=leader),
        Fetches(broker=broker, end=0, epoch=0),
    ]


def failover() -> Trace:
    """Broker 1 leads, is killed with 30 records that no other has, and restarts."""
    final = log((0, 0), (1, 100), end=250)
    return Trace(
        name="orders-0",
        elections=(
            Election(epoch=0, leader=1, isr=ALL),
            Election(epoch=1, leader=2, isr=(2, 3), partition_epoch=1),
            Election(epoch=1, leader=2, isr=ALL, partition_epoch=2),
        ),
        brokers={
            1: (
                *starts(1),
                Loads(broker=1, end=130),
                Follows(broker=1, end=130, epoch=1, leader=2, high_watermark=90),
                Fetches(broker=1, end=130, epoch=1),
                Truncates(broker=1, end=100),
                Ends(broker=1, end=250, log=final),
            ),
            2: (
                *starts(2),
                Leads(broker=2, end=100, epoch=1, isr=(2, 3), high_watermark=95),
                Ends(broker=2, end=250, log=final),
            ),
            3: (
                *starts(3),
                Follows(broker=3, end=105, epoch=1, leader=2, high_watermark=98),
                Fetches(broker=3, end=110, epoch=1),
                Truncates(broker=3, end=100),
                Ends(broker=3, end=250, log=final),
            ),
        },
        acks=(
            Acked(offset=99, everyone=True, epoch=0, lost=False, first=0, last=0),
            Acked(offset=249, everyone=True, epoch=1, lost=False, first=1),
        ),
    )


def behind(high_watermark: int = 100, isr: tuple[int, ...] = ALL) -> Trace:
    """Broker 2 is back in the ISR with 90 records, leads, and 3 truncates to them.

    high_watermark: of leader 1, which had 100 records, as broker 3 had. isr: after 2 is back.
    """
    final = log((0, 0), (1, 90), end=95)
    follows = (
        Follows(broker=3, end=100, epoch=1, leader=2, high_watermark=90),
        Fetches(broker=3, end=100, epoch=1),
        Truncates(broker=3, end=90),
    )
    return Trace(
        name="orders-0",
        elections=(
            Election(epoch=0, leader=1, isr=ALL),
            Election(epoch=0, leader=1, isr=(1, 3), partition_epoch=1),
            Election(epoch=0, leader=1, isr=isr, partition_epoch=2),
            Election(epoch=1, leader=2, isr=(2, 3), partition_epoch=3),
        ),
        brokers={
            1: (*starts(1), Shrinks(broker=1, end=100, high_watermark=high_watermark)),
            2: (
                *starts(2),
                Leads(broker=2, end=90, epoch=1, isr=(2, 3), high_watermark=90),
                Ends(broker=2, end=95, log=final),
            ),
            3: (*starts(3), *follows, Ends(broker=3, end=95, log=final)),
        },
    )


def one_ack() -> Trace:
    """`failover` with acks=1: the records that only the killed leader had are lost."""
    lost = Acked(offset=129, everyone=False, epoch=1, lost=True)
    kept = Acked(offset=249, everyone=False, epoch=1, lost=False)
    return replace(failover(), acks=(lost, kept))


def powerless() -> Trace:
    """The leader shrinks the ISR to itself, loses power and 40 records, and leads again."""
    final = log((0, 0), (2, 80), end=90)
    return Trace(
        name="orders-0",
        elections=(
            Election(epoch=0, leader=1, isr=ALL),
            Election(epoch=0, leader=1, isr=(1,)),
            Election(epoch=1, leader=-1, isr=(1,)),
            Election(epoch=2, leader=1, isr=(1,)),
            Election(epoch=2, leader=1, isr=ALL),
        ),
        brokers={
            1: (
                *starts(1),
                Shrinks(broker=1, end=70, high_watermark=60),
                Loads(broker=1, end=80, lossy=True, before=120),
                Leads(broker=1, end=80, epoch=2, isr=(1,), high_watermark=80),
                Ends(broker=1, end=90, log=final),
            ),
            **{
                broker: (
                    *starts(broker),
                    Follows(broker=broker, end=60, epoch=1, leader=-1, high_watermark=60),
                    Follows(broker=broker, end=60, epoch=2, leader=1, high_watermark=60),
                    Fetches(broker=broker, end=60, epoch=2),
                    Ends(broker=broker, end=90, log=final),
                )
                for broker in (2, 3)
            },
        },
        acks=(
            Acked(offset=119, everyone=True, epoch=None, lost=True),
            Acked(offset=89, everyone=True, epoch=2, lost=False),
        ),
    )


def together() -> Trace:
    """All brokers are killed at once and start again, before a controller has fenced any."""
    final = log((0, 0), end=250)

    def follower(broker: int) -> list[Step]:
        again = Follows(broker=broker, end=100, epoch=0, leader=1, high_watermark=90)
        fetches = Fetches(broker=broker, end=100, epoch=0)
        loads, ends = Loads(broker=broker, end=100), Ends(broker=broker, end=250, log=final)
        return [*starts(broker), loads, again, fetches, ends]

    return Trace(
        name="orders-0",
        elections=(Election(epoch=0, leader=1, isr=ALL),),
        brokers={
            1: (
                *starts(1),
                Loads(broker=1, end=130),
                Leads(broker=1, end=130, epoch=0, isr=ALL, high_watermark=95),
                Ends(broker=1, end=250, log=final),
            ),
            2: tuple(follower(2)),
            3: tuple(follower(3)),
        },
        acks=(Acked(offset=249, everyone=True, epoch=0, lost=False, first=0),),
    )


def alter(trace: Trace, broker: int, number: int, **changes: Any) -> Trace:
    """Change one step of a broker."""
    steps = list(trace.brokers[broker])
    steps[number] = replace(steps[number], **changes)
    return replace(trace, brokers={**trace.brokers, broker: tuple(steps)})


def add(trace: Trace, broker: int, number: int, *steps: Step) -> Trace:
    """Insert steps of a broker before its step `number`."""
    own = trace.brokers[broker]
    return replace(trace, brokers={**trace.brokers, broker: (*own[:number], *steps, *own[number:])})


def drop(trace: Trace, broker: int, number: int) -> Trace:
    """Remove a step of a broker."""
    own = list(trace.brokers[broker])
    del own[number]
    return replace(trace, brokers={**trace.brokers, broker: tuple(own)})


def acked(trace: Trace, **changes: Any) -> Trace:
    """Keep only the first ack, changed."""
    return replace(trace, acks=(replace(trace.acks[0], **changes),))


def deposed() -> Trace:
    """`failover`, but the elected broker is not the one that leads."""
    trace = failover()
    states = list(trace.elections)
    states[1] = replace(states[1], leader=3)
    return replace(trace, elections=tuple(states))


def shorter_after_a_kill() -> Trace:
    """`failover`, but the killed leader restarts with a shorter log."""
    trace = failover()
    for number in (1, 2, 3):
        trace = alter(trace, 1, number, end=120)
    return add(trace, 1, 1, Shrinks(broker=1, end=125, high_watermark=90))


def alone() -> Trace:
    """`powerless`, but the leader, alone in the ISR, does not advance the high watermark."""
    return alter(powerless(), 1, 3, high_watermark=60)


BELOW_MIN = ReplicationRules(min_isr=2)
MIN_1 = ReplicationRules(min_isr=1)


def _no_refusal(*_: object) -> None:
    return None


def _shortens(kind: type[Step]) -> tuple[object, str, object]:
    """Let the replica's log become shorter before the steps of one kind."""
    settled = partition_replay._Run._settled

    def shorter(run: partition_replay._Run, step: Step) -> Log:
        replica = run.replicas[step.broker]
        if isinstance(step, kind) and step.end < replica.log.end:
            replica.log = replica.log.cut(step.end)
        return settled(run, step)

    return (partition_replay._Run, "_settled", shorter)


_LOADS = partition_replay._Run._loads


def _lengthened_by_loss(run: partition_replay._Run, step: Loads) -> str:
    return _LOADS(run, replace(step, before=None))


def _truncated_anywhere(run: partition_replay._Run, step: Truncates) -> str:
    replica = run.replicas[step.broker]
    replica.log = replica.log.cut(step.end)
    return "truncates by epoch"


def _ends_anyhow(run: partition_replay._Run, step: Ends) -> str:
    run._settled(step)
    return "log in the end"


#: By guard: the rules that have it, each with the rule that a Kafka without the guard would have.
MUTANTS: dict[str, list[tuple[object, str, object]]] = {
    "elected_leads": [
        (
            replication_rules,
            "elected",
            lambda elections, epoch, leader: (one for one in elections if one.epoch == epoch),
        )
    ],
    "start_at_end": [_shortens(Leads)],
    "follower_keeps": [_shortens(Fetches)],
    "stop_keeps": [_shortens(Loads)],
    "loss_shortens": [(partition_replay._Run, "_loads", _lengthened_by_loss)],
    "truncate_agreed": [(partition_replay._Run, "_truncates", _truncated_anywhere)],
    "fetch_agreed": [(partition_trace, "common", lambda leader, log: log.end)],
    "leader_wrote": [(ReachedOffsets, "unwritten", _no_refusal)],
    "leader_holds": [(ReachedOffsets, "_leader_lacks", _no_refusal)],
    "isr_holds": [(ReachedOffsets, "_isr_behind", _no_refusal)],
    "enough_in_sync": [
        (ReachedOffsets, "_below_min_isr", _no_refusal),
        (
            replication_rules,
            "high_watermark",
            lambda ends, *, isr_size, min_isr, freeze: high_watermark(
                ends, isr_size=isr_size, min_isr=min_isr, freeze=False
            ),
        ),
    ],
    "watermark_held": [(ReachedOffsets, "watermark_refusal", _no_refusal)],
    "isr_keeps": [(ReachedOffsets, "below_watermark", _no_refusal)],
    "joins_at_start": [(ReachedOffsets, "not_joining", _no_refusal)],
    "end_follows": [(partition_replay._Run, "_ends", _ends_anyhow)],
}

#: Wrong traces: the guard that refutes each, and its message.
WRONG: dict[str, tuple[str, Callable[[], Trace], ReplicationRules, str]] = {
    "a member of the ISR that lacks committed records": (
        "isr_keeps",
        behind,
        RULES,
        "broker 2 leads in epoch 1.*has all below 100, the high watermark of a leader in epoch 0",
    ),
    "a leader that was not elected": (
        "elected_leads",
        deposed,
        RULES,
        "broker 2 leads in epoch 1.*only as the controller has elected it",
    ),
    "an epoch that begins elsewhere than its leader's log ends": (
        "start_at_end",
        lambda: add(failover(), 2, 2, Fetches(broker=2, end=104, epoch=0)),
        RULES,
        "broker 2 leads in epoch 1 from offset 100.*its log ends at 104 at least",
    ),
    "a follower that lost records": (
        "follower_keeps",
        lambda: alter(failover(), 3, 3, end=103),
        RULES,
        "broker 3 fetches in epoch 1 from offset 103.*ends at 105 at least",
    ),
    "a SIGKILL that lost the page cache": (
        "stop_keeps",
        shorter_after_a_kill,
        RULES,
        "broker 1 loads a log that ends at 120 .*ends at 125 at least",
    ),
    "a power loss that added records": (
        "loss_shortens",
        lambda: alter(replace(alone(), acks=()), 1, 2, before=75),
        MIN_1,
        "broker 1 loads a log that ends at 80 after a power loss.*beginning of what it held: 0-74",
    ),
    "a follower truncated below the agreed point": (
        "truncate_agreed",
        lambda: alter(failover(), 1, 4, end=90),
        RULES,
        "broker 1 truncates to offset 90 .*agrees up to 100",
    ),
    "a follower that did not truncate": (
        "fetch_agreed",
        lambda: drop(failover(), 3, 4),
        RULES,
        "broker 3 holds in the end .*it appends nothing before it has truncated to 100",
    ),
    "a record that its leader never wrote": (
        "leader_wrote",
        lambda: alter(failover(), 3, -1, end=260, log=log((0, 0), (1, 100), end=260)),
        RULES,
        "broker 3 holds epoch 1 up to 260; by the rules: broker 2, which led in it, reached 250",
    ),
    "an ack of what the leader did not hold": (
        "leader_holds",
        lambda: acked(one_ack(), offset=130),
        RULES,
        "acks=1 of offset 130, which is lost.*broker 1 reached 130",
    ),
    "an ack that no ISR held": (
        "isr_holds",
        lambda: acked(failover(), offset=109, epoch=1, lost=True),
        RULES,
        r"acks=all of offset 109, which is lost.*ISR \[1, 2, 3\]: broker 2 reached 100",
    ),
    "an ack below min.insync.replicas": (
        "enough_in_sync",
        alone,
        BELOW_MIN,
        r"acks=all of offset 119.*ISR \[1\]: fewer than 2 in sync",
    ),
    "a high watermark that no ISR had reached": (
        "watermark_held",
        lambda: alter(failover(), 2, 2, high_watermark=101),
        RULES,
        "broker 2 leads in epoch 1.*high watermark 101.*broker 2 reached 100",
    ),
    "a replica that joins the ISR before it has caught up": (
        "joins_at_start",
        lambda: alter(powerless(), 3, -1, end=70, log=log((0, 0), end=70)),
        MIN_1,
        "broker 3 joins only once it has reached 80, where the epoch begins; it reached 70",
    ),
    "a diverged replica": (
        "end_follows",
        lambda: alter(failover(), 3, -1, log=log((0, 0), (1, 90), end=250)),
        RULES,
        "broker 3 holds in the end 0-89 of epoch 0.*by the rules: 0-99 of epoch 0, 100-249 of",
    ),
    "a record of an epoch in which nobody led": (
        "end_follows",
        lambda: alter(failover(), 3, -1, log=log((0, 0), (1, 100), (7, 200), end=250)),
        RULES,
        "200-249 of epoch 7",
    ),
}


def mutations() -> Iterator[Mutation]:
    """Yield for each guard whether it alone refutes a wrong trace."""
    of_guard = {guard: name for name, (guard, *_) in reversed(WRONG.items())}
    for name, (guard, make, rules, _) in WRONG.items():
        if of_guard[guard] != name:
            continue  # another trace for the same guard
        trace = make()
        with with_wrong(MUTANTS[guard]):
            without = replay(trace, rules)
        refused = replay(trace, rules).mismatch is not None
        yield Mutation(
            guard=guard,
            anomaly=name,
            steps=without.explained if without.mismatch is None else None,
            before=None if refused else without.total,
        )
