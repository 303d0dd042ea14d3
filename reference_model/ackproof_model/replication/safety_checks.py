"""Kafka's safety checks of replication and election, each of which can be switched off.

Kafka has them all. The mutation tests switch one off at a time and require a result to change: that
shows how much an `impossible` within the model's bounds is worth.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyChecks:
    """One flag for each check; False switches it off.

    `adversary` has no producer, so it ignores the last three; `prediction` ignores
    `broker_epoch_check`.

    high_watermark_ack: acks=all is answered only once the high watermark has passed the record
        (`Partition.checkEnoughReplicasReachOffset`).
    min_isr_precheck: acks=all is refused while |ISR| < min.insync.replicas
        (`Partition.appendRecordsToLeader`).
    hw_freeze: see `Profile.hw_freeze` (KAFKA-15583).
    maximal_isr: the high watermark waits for a replica that is being added to the ISR (KIP-497).
    epoch_start_check: a replica joins the ISR only once it has reached the leader epoch's start
        offset (KAFKA-7128, `Partition.isFollowerInSync`).
    epoch_truncation: a follower truncates what diverges from its leader (KIP-101, KIP-279,
        KIP-595).
    fetch_epoch_check: a fetch under another leader epoch is refused (KIP-320).
    partition_epoch_check: an AlterPartition under an old partition epoch is refused (KIP-497).
    leader_epoch_check: an AlterPartition of an older leader epoch is refused (KIP-497).
    broker_epoch_check: a replica that started anew since its last fetch is not taken into the ISR
        (KIP-903).
    unclean_registration: a replica that registers after an unclean stop leaves ISR and ELR
        (KIP-966).
    isr_election: only a replica in the ISR (or ELR) is elected
        (`PartitionChangeBuilder.electLeader`).
    idempotent_dedup: a sequence number already in the log is not appended again (KIP-98).
    sequence_check: an idempotent record is refused while one before it is missing (KIP-98).
    retry_order: a record that is retried goes out before those never sent
        (`RecordAccumulator`; librdkafka sorts its queue).
    """

    high_watermark_ack: bool = True
    min_isr_precheck: bool = True
    hw_freeze: bool = True
    maximal_isr: bool = True
    epoch_start_check: bool = True
    epoch_truncation: bool = True
    fetch_epoch_check: bool = True
    partition_epoch_check: bool = True
    leader_epoch_check: bool = True
    broker_epoch_check: bool = True
    unclean_registration: bool = True
    isr_election: bool = True
    idempotent_dedup: bool = True
    sequence_check: bool = True
    retry_order: bool = True


ALL_CHECKS = SafetyChecks()
