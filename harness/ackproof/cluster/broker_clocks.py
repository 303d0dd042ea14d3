"""The adjustable clocks of brokers, as faults shift them."""

from __future__ import annotations

from dataclasses import dataclass

from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.state import ClusterState
from ackproof.cluster.volumes import run_at_volume
from ackproof.containers import fake_clock
from ackproof.errors import ClusterError
from ackproof_faults.interfaces.clocks import Clocks


@raises_fault_errors
@dataclass(frozen=True)
class BrokerClocks(Clocks):
    """Sets the offset that the preload in a broker's JVM adds to the machine's clock."""

    cluster: ClusterState

    def shift(self, broker: int, by_s: float) -> None:
        result = run_at_volume(self.cluster, broker, fake_clock.offset_script(by_s))
        if result.exit_status != 0:
            name = self.cluster.nodes[broker].spec.name
            raise ClusterError(f"the clock of {name} cannot be set: {result.output}")
