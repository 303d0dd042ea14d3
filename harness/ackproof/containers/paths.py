"""Paths inside the container of a node."""

from __future__ import annotations

#: Where the node's volume is mounted.
VOLUME_DIR = "/var/lib/ackproof"
#: The first log directory of a broker or controller, and ZooKeeper's data directory.
DATA_DIR = f"{VOLUME_DIR}/data"
#: Configuration, and secrets where there are any.
CONFIG_DIR = "/etc/ackproof"
