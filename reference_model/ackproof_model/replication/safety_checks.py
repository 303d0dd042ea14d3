"""The guards that keep Kafka's promises, each of which can be taken away.

Kafka has them all. The mutation tests take away one at a time and require the predictions to
change: that is what tells how much an `impossible` within the model's bounds is worth.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyChecks:
    """One flag for each guard; False takes it away.

    `leader_epoch_check` and `broker_epoch_check` are guards of `adversary` only; those of the
    producer (the last three) are not.

    high_watermark_ack: acks=all is answered only when the high watermark has passed the record
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
    retry_order: a record to be sent again goes out before those never sent
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
