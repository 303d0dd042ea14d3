"""The volumes of brokers, as faults read and change their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.state import ClusterState
from ackproof.containers import sidecar
from ackproof.containers.paths import VOLUME_DIR
from ackproof_faults.interfaces.command import CommandResult
from ackproof_faults.interfaces.volumes import Volumes


def run_at_volume(cluster: ClusterState, broker: int, script: str) -> CommandResult:
    """Run a bash script in a sidecar that mounts the broker's volume at the broker's own path."""
    return sidecar.run(
        cluster.client,
        cluster.sidecar,
        script,
        run_id=cluster.run_id,
        volumes={cluster.nodes[broker].volume: {"bind": VOLUME_DIR, "mode": "rw"}},
        network_mode="none",
    )


@raises_fault_errors
@dataclass(frozen=True)
class BrokerVolumes(Volumes):
    """The volume of each broker, whether the broker runs or not."""

    cluster: ClusterState

    def log_directories(self, broker: int) -> Sequence[str]:
        return self.cluster.nodes[broker].spec.directories

    def run(self, broker: int, script: str) -> CommandResult:
        return run_at_volume(self.cluster, broker, script)

    def read_file(self, broker: int, path: str) -> bytes:
        return self.cluster.nodes[broker].read_file(path)

    def renew_identity(self, broker: int) -> None:
        if not self.cluster.topology.zookeeper:
            self.cluster.nodes[broker].renew_identity(self.cluster.topology.cluster_id)
