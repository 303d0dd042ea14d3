"""Times of clusters in containers that schedules need, too: without the packages of a cluster."""

from __future__ import annotations

#: How long partitions may take until their ISR is full, seconds.
RECOVERY_S = 90.0

#: ZooKeeper ends sessions once in this time, all together that are over by then.
ZOOKEEPER_TICK_MS = 2000
