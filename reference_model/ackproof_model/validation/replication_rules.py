"""The rules that a partition's trace is held against, one flag each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRules:
    """The partition's settings, and one flag for each rule; False drops the rule.

    min_isr: min(min.insync.replicas, replication factor). freeze: see `Profile.hw_freeze`.

    elected_leads: a broker leads and follows only as the controller elected it.
    start_at_end: a leader epoch begins at its leader's log end offset (`Partition.makeLeader`).
    follower_keeps: a log gets shorter only where a broker reports a truncation.
    stop_keeps: a shutdown and a SIGKILL leave the log as it was.
    loss_shortens: after a power loss a log is a prefix of what it was.
    truncate_agreed: a follower truncates to where it agrees with its leader, by epoch.
    fetch_agreed: a follower appends only after the prefix that it shares with its leader.
    leader_wrote: no replica holds more of an epoch than its leader wrote.
    leader_holds: a record is acked only by a leader that holds it.
    isr_holds: with acks=all, every member of the ISR holds it
        (`Partition.checkEnoughReplicasReachOffset`).
    enough_in_sync: with acks=all, the ISR is not below min_isr.
    watermark_held: every member of some ISR held what is below the high watermark
        (`Partition.maybeIncrementLeaderHW`).
    joins_at_start: a replica joins the ISR only once it has reached the epoch's start offset
        (`Partition.isFollowerInSync`).
    end_follows: what a disk holds in the end is what the steps lead to.
    """

    min_isr: int = 1
    freeze: bool = True
    elected_leads: bool = True
    start_at_end: bool = True
    follower_keeps: bool = True
    stop_keeps: bool = True
    loss_shortens: bool = True
    truncate_agreed: bool = True
    fetch_agreed: bool = True
    leader_wrote: bool = True
    leader_holds: bool = True
    isr_holds: bool = True
    enough_in_sync: bool = True
    watermark_held: bool = True
    joins_at_start: bool = True
    end_follows: bool = True
