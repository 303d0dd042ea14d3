"""Writes the metadata log of a small cluster by the rules, event by event, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ackproof_model.kafka.partition_change import (
    Change,
    ControllerRules,
    Election,
    Target,
    partition_change,
)
from ackproof_model.validation import controller_events as events
from ackproof_model.validation.controller_state import ControllerState, MetadataRecord, PartitionId

ORDERS: PartitionId = ("T", 0)
_NAMES = {
    "removing": "removingReplicas",
    "adding": "addingReplicas",
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
    "recovering": "leaderRecoveryState",
}


class Controller:
    """A controller that logs what it decides; three brokers and the partition orders-0."""

    def __init__(
        self,
        version: tuple[int, ...] = (4, 3, 1),
        *,
        elr: bool = True,
        min_isr: int = 2,
        unclean: bool = False,
        brokers: int = 3,
        metadata_version: int = 25,
    ) -> None:
        self.rules = ControllerRules.of(version)
        self.state = ControllerState(self.rules)
        self.log: list[MetadataRecord] = []
        self.write("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=metadata_version)
        if elr:
            self.write(
                "FEATURE_LEVEL_RECORD", name="eligible.leader.replicas.version", featureLevel=1
            )
        for broker in range(1, brokers + 1):
            self.register(broker)
            self.unfence(broker)
        self.write("TOPIC_RECORD", name="orders", topicId="T")
        for name, value in (
            ("min.insync.replicas", str(min_isr)),
            ("unclean.leader.election.enable", str(unclean).lower()),
        ):
            self.write(
                "CONFIG_RECORD", resourceType=2, resourceName="orders", name=name, value=value
            )
        self.write(
            "PARTITION_RECORD",
            topicId="T",
            partitionId=0,
            replicas=[1, 2, 3],
            isr=[1, 2, 3],
            leader=1,
            leaderEpoch=0,
            partitionEpoch=0,
            directories=["dir-1", "dir-2", "dir-3"],
        )

    def write(self, kind: str, **data: Any) -> None:
        """Log one record, as it is."""
        record = MetadataRecord(offset=len(self.log), kind=kind, data=data)
        self.log.append(record)
        self.state.apply(record)

    def change(self, change: Change | None) -> None:
        """Log a change of orders-0, if there is one."""
        if change is None:
            return
        told = {
            _NAMES.get(field.name, field.name): _json(getattr(change, field.name))
            for field in fields(change)
            if getattr(change, field.name) is not None
        }
        self.write("PARTITION_CHANGE_RECORD", topicId="T", partitionId=0, **told)

    def _broker(self, broker: int, **changes: Any) -> None:
        epoch = self.state.brokers[broker].epoch
        self.write(
            "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=broker, brokerEpoch=epoch, **changes
        )

    def register(self, broker: int, *, clean: bool = True) -> None:
        now = self.state.partitions.get(ORDERS)
        if now is not None and self.rules.unclean_shutdown and broker in (*now.isr, *now.elr):
            unclean = self.state.elr and not clean
            if unclean or broker in now.isr:
                step = events.broker_goes(
                    self.state, ORDERS, broker, events.Event.UNCLEAN_START, unclean=unclean
                )
                self.change(step.change)
        self.write(
            "REGISTER_BROKER_RECORD",
            brokerId=broker,
            brokerEpoch=len(self.log),
            incarnationId=f"{broker}@{len(self.log)}",
            fenced=True,
            logDirs=[f"dir-{broker}"],
        )

    def unfence(self, broker: int) -> None:
        self._broker(broker, fenced=-1)
        now = self.state.partitions.get(ORDERS)
        if now is not None and now.leader == -1:
            self.change(events.broker_unfenced(self.state, ORDERS, broker).change)

    def fence(self, broker: int) -> None:
        if broker in self.state.partitions[ORDERS].isr:
            self.change(events.broker_goes(self.state, ORDERS, broker, events.Event.FENCED).change)
        self._broker(broker, fenced=1)

    def shut_down(self, broker: int) -> None:
        self._broker(broker, inControlledShutdown=1)
        if broker in self.state.partitions[ORDERS].isr:
            self.change(events.broker_goes(self.state, ORDERS, broker, events.Event.FENCED).change)

    def unregister(self, broker: int) -> None:
        now = self.state.partitions[ORDERS]
        if broker in (*now.isr, *now.elr):
            self.change(events.broker_goes(self.state, ORDERS, broker, events.Event.FENCED).change)
        epoch = self.state.brokers[broker].epoch
        self.write("UNREGISTER_BROKER_RECORD", brokerId=broker, brokerEpoch=epoch)

    def ask(self, **wanted: Any) -> None:
        """Log what the rules make of a wish: the leader's, an operator's or the controller's."""
        now = self.state.partitions[ORDERS]
        target = Target(**wanted)
        self.change(partition_change(now, target, self.state.cluster(ORDERS)))

    def elect(self, election: Election) -> None:
        self.ask(election=election)

    def tampered(
        self, number: int, alter: Callable[[dict[str, Any]], None]
    ) -> list[MetadataRecord]:
        """Return the log with its `number`-th change of the partition altered."""
        changes = [one for one in self.log if one.kind == "PARTITION_CHANGE_RECORD"]
        data = dict(changes[number].data)
        alter(data)
        wrong = MetadataRecord(offset=changes[number].offset, kind=changes[number].kind, data=data)
        return [wrong if one is changes[number] else one for one in self.log]

    def without(self, number: int) -> list[MetadataRecord]:
        """Return the log without its `number`-th change of the partition."""
        changes = [one for one in self.log if one.kind == "PARTITION_CHANGE_RECORD"]
        return [one for one in self.log if one is not changes[number]]


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, bool) else value
