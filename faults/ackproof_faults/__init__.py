"""Faults of Kafka clusters and their clients: one fault, one file, one name, one schema.

::

    from ackproof_faults import Kill, acked, isr, leader

    Kill(target=leader("orders", 0), when=acked(3000) & (isr("orders", 0) == 3))

Fault classes are found by the registry when the first of them is used. The imports of
`TYPE_CHECKING` tell type checkers and editors about them; a test compares both.
"""

from typing import TYPE_CHECKING

from ackproof_faults.conditions.builders import (
    acked,
    active_controller,
    after,
    all_brokers,
    any_brokers,
    began,
    brokers,
    ended,
    epoch,
    followers,
    high_watermark,
    isr,
    lag,
    leader,
    log_says,
    majority_of_controllers,
    minority_of_controllers,
    recovered,
    sent,
)
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape, fault_of
from ackproof_faults.guard import FaultWindow, Guard, inject
from ackproof_faults.interfaces.cluster import Cluster, CommandResult, InterfaceNames
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.registry import registered
from ackproof_faults.schedule.blocks import (
    ChoiceBlock,
    ParallelBlock,
    RandomBlock,
    SequenceBlock,
    StepList,
    every_fault,
    plain,
)
from ackproof_faults.schedule.limits import BlastRadius
from ackproof_faults.schedule.observation import SendCounts
from ackproof_faults.schedule.sampling import times_begun
from ackproof_faults.schedule.schedule import Schedule

if TYPE_CHECKING:
    from ackproof_faults.clients.crash_client import CrashClient
    from ackproof_faults.clients.fill_buffer import FillBuffer
    from ackproof_faults.clients.pause_client import PauseClient
    from ackproof_faults.clients.purge_client import PurgeClient
    from ackproof_faults.clients.rebalance_storm import RebalanceStorm
    from ackproof_faults.clients.skew_timestamps import SkewTimestamps
    from ackproof_faults.clients.slow_client import SlowClient
    from ackproof_faults.control import NoFault
    from ackproof_faults.disk.damaged_index import DeleteIndex, TruncateIndex
    from ackproof_faults.disk.disk_full import DiskFull
    from ackproof_faults.disk.fail_log_dir import FailLogDir
    from ackproof_faults.disk.flip_byte import FlipByte
    from ackproof_faults.disk.old_checkpoint import OldCheckpoint
    from ackproof_faults.disk.power_loss import PowerLoss
    from ackproof_faults.disk.replace_disk import ReplaceDisk
    from ackproof_faults.disk.wipe_partition import WipePartition
    from ackproof_faults.disk.wipe_volume import WipeVolume
    from ackproof_faults.external.command import Command
    from ackproof_faults.external.docker import Docker
    from ackproof_faults.network.bridge import Bridge
    from ackproof_faults.network.flapping import Flapping
    from ackproof_faults.network.half_open import HalfOpen
    from ackproof_faults.network.isolate import Isolate
    from ackproof_faults.network.isolate_replication import IsolateReplication
    from ackproof_faults.network.link import LinkFault
    from ackproof_faults.network.majorities_ring import MajoritiesRing
    from ackproof_faults.network.packet_loss import PacketLoss
    from ackproof_faults.network.partition import Partition
    from ackproof_faults.network.queues import Bandwidth, Latency
    from ackproof_faults.network.reset_connections import ResetConnections
    from ackproof_faults.network.split import Split
    from ackproof_faults.operations.add_broker import AddBroker
    from ackproof_faults.operations.add_controller import AddController
    from ackproof_faults.operations.add_partitions import AddPartitions
    from ackproof_faults.operations.alter_config import AlterConfig
    from ackproof_faults.operations.change_replication_factor import ChangeReplicationFactor
    from ackproof_faults.operations.elections import PreferredElection, UncleanElection
    from ackproof_faults.operations.reassign import Reassign
    from ackproof_faults.operations.recreate_topic import RecreateTopic
    from ackproof_faults.operations.remove_broker import RemoveBroker
    from ackproof_faults.operations.remove_controller import RemoveController
    from ackproof_faults.operations.upgrade import Upgrade
    from ackproof_faults.operations.upgrade_feature import UpgradeFeature
    from ackproof_faults.process.crash_loop import CrashLoop
    from ackproof_faults.process.kill import Kill
    from ackproof_faults.process.kill_cluster import KillCluster
    from ackproof_faults.process.oom_kill import OomKill
    from ackproof_faults.process.pause import Pause
    from ackproof_faults.process.restart import Restart
    from ackproof_faults.process.rolling_restart import RollingRestart
    from ackproof_faults.process.skew_clock import SkewClock

__all__ = [
    "AddBroker",
    "AddController",
    "AddPartitions",
    "AlterConfig",
    "Bandwidth",
    "BlastRadius",
    "Bridge",
    "ChangeReplicationFactor",
    "ChoiceBlock",
    "Cluster",
    "Command",
    "CommandResult",
    "CrashClient",
    "CrashLoop",
    "DeleteIndex",
    "DiskFull",
    "Docker",
    "Evidence",
    "FailLogDir",
    "Fault",
    "FaultError",
    "FaultWindow",
    "FillBuffer",
    "Flapping",
    "FlipByte",
    "Guard",
    "HalfOpen",
    "InterfaceNames",
    "Isolate",
    "IsolateReplication",
    "Kill",
    "KillCluster",
    "Latency",
    "LinkFault",
    "MajoritiesRing",
    "Need",
    "NoFault",
    "OldCheckpoint",
    "OomKill",
    "PacketLoss",
    "ParallelBlock",
    "Partition",
    "Pause",
    "PauseClient",
    "PowerLoss",
    "PreferredElection",
    "Problem",
    "PurgeClient",
    "RandomBlock",
    "Reassign",
    "RebalanceStorm",
    "RecreateTopic",
    "RemoveBroker",
    "RemoveController",
    "ReplaceDisk",
    "ResetConnections",
    "Restart",
    "RollingRestart",
    "Schedule",
    "SendCounts",
    "SequenceBlock",
    "Shape",
    "SkewClock",
    "SkewTimestamps",
    "SlowClient",
    "Split",
    "StepList",
    "TruncateIndex",
    "UncleanElection",
    "Upgrade",
    "UpgradeFeature",
    "WipePartition",
    "WipeVolume",
    "acked",
    "active_controller",
    "after",
    "all_brokers",
    "any_brokers",
    "began",
    "brokers",
    "ended",
    "epoch",
    "every_fault",
    "fault_of",
    "followers",
    "high_watermark",
    "inject",
    "isr",
    "lag",
    "leader",
    "log_says",
    "majority_of_controllers",
    "minority_of_controllers",
    "plain",
    "recovered",
    "registered",
    "sent",
    "times_begun",
]

if not TYPE_CHECKING:  # or a type checker would accept every name

    def __getattr__(name: str) -> type[Fault]:
        """Return the fault class of this package with this name."""
        for kind in registered().values():
            if kind.__name__ == name and kind.__module__.startswith(f"{__name__}."):
                return kind
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
