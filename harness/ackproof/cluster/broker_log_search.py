"""Searches in the log4j logs of brokers, as faults use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.node import KafkaNode
from ackproof_faults.interfaces.broker_logs import BrokerLogs


@raises_fault_errors
@dataclass(frozen=True)
class BrokerLogSearch(BrokerLogs):
    """Searches what the nodes have printed; `nodes` are by id."""

    nodes: Mapping[int, KafkaNode]

    def contains(self, broker: int, text: str, since: datetime) -> bool:
        return self.nodes[broker].log_contains(text, since)

    def await_line(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        return self.nodes[broker].await_log_line(text, since=since, within_s=within_s)
