"""Limits on the block I/O of a container, set in its control group while it runs.

The engine sets them for new containers only. So a sidecar, which needs no privileges, writes to the
engine's control groups: version 1 (`blkio`) or 2 (`io`).
"""

from __future__ import annotations

import re

from ackproof.containers import commands
from ackproof.containers.images import VOLUME_DIR
from ackproof.errors import ClusterError

#: The mount of a sidecar that sets limits.
GROUPS = {"/sys/fs/cgroup": {"bind": "/cgroup", "mode": "rw"}}

_PROBE = f"{VOLUME_DIR}/ackproof-probe"


def script(container: str, rate: int | None, operations: int | None) -> str:
    """Return a bash script that limits the container on the disk of the volume, for a sidecar."""
    return f"""
device=$(mountpoint -d {VOLUME_DIR})
if [ -e /sys/dev/block/$device/partition ]; then
  device=$(cat "$(readlink -f /sys/dev/block/$device)/../dev")
fi
if [ ! -e /sys/dev/block/$device ]; then
  echo "its volume is on no block device ($device)"; exit 1
fi
set -e
group=$(find /cgroup/blkio -type d -name '*{container}*' -print -quit 2> /dev/null || :)
if [ -n "$group" ]; then
  for kind in read write; do
    echo $device {rate or 0} > $group/blkio.throttle.${{kind}}_bps_device
    echo $device {operations or 0} > $group/blkio.throttle.${{kind}}_iops_device
  done
  exit
fi
group=$(find /cgroup -maxdepth 6 -type d -name '*{container}*' -print -quit)
if [ -z "$group" ]; then
  echo "the engine's control groups have none for it"; exit 1
fi
if [ ! -e $group/io.max ]; then
  echo "its control group has no io controller: a parent's cgroup.subtree_control lacks io"; exit 1
fi
bytes={rate or "max"} operations={operations or "max"}
echo $device rbps=$bytes wbps=$bytes riops=$operations wiops=$operations > $group/io.max
"""


def write_s(node: commands.Node, size: int) -> float:
    """Return how long a process in the container needs to write and fsync a file, seconds."""
    blocks = -(-size // 4096)
    line = f"dd if=/dev/zero of={_PROBE} bs=4k count={blocks} conv=fsync 2>&1"
    output = commands.run_script(node, f"{line}; code=$?; rm -f {_PROBE}; exit $code", "dd")
    took = re.search(r"copied, ([0-9.e-]+) s", output)
    if took is None:
        raise ClusterError(f"a write at {node.name} failed: {output.strip()}")
    return float(took[1])
