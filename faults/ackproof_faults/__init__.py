"""Faults of Kafka clusters and their clients: one fault, one class, one name, one schema.

::

from ackproof_faults import Kill, acked, isr, leader

    Kill(target=leader("orders", 0), when=acked(3000) & (isr("orders", 0) == 3))

The fault classes imported here are those that are registered as ackproof's own.
"""

from ackproof_faults.clients import CrashClient as CrashClient
from ackproof_faults.clients import FillBuffer as FillBuffer
from ackproof_faults.clients import PauseClient as PauseClient
from ackproof_faults.clients import PurgeClient as PurgeClient
from ackproof_faults.clients import RebalanceStorm as RebalanceStorm
from ackproof_faults.clients import SkewTimestamps as SkewTimestamps
from ackproof_faults.clients import SlowClient as SlowClient
from ackproof_faults.conditions.builders import acked as acked
from ackproof_faults.conditions.builders import acquired as acquired
from ackproof_faults.conditions.builders import active_controller as active_controller
from ackproof_faults.conditions.builders import after as after
from ackproof_faults.conditions.builders import all_brokers as all_brokers
from ackproof_faults.conditions.builders import any_brokers as any_brokers
from ackproof_faults.conditions.builders import began as began
from ackproof_faults.conditions.builders import brokers as brokers
from ackproof_faults.conditions.builders import ended as ended
from ackproof_faults.conditions.builders import epoch as epoch
from ackproof_faults.conditions.builders import followers as followers
from ackproof_faults.conditions.builders import high_watermark as high_watermark
from ackproof_faults.conditions.builders import isr as isr
from ackproof_faults.conditions.builders import lag as lag
from ackproof_faults.conditions.builders import leader as leader
from ackproof_faults.conditions.builders import log_says as log_says
from ackproof_faults.conditions.builders import majority_of_controllers as majority_of_controllers
from ackproof_faults.conditions.builders import minority_of_controllers as minority_of_controllers
from ackproof_faults.conditions.builders import rack as rack
from ackproof_faults.conditions.builders import recovered as recovered
from ackproof_faults.conditions.builders import replica_lag as replica_lag
from ackproof_faults.conditions.builders import sent as sent
from ackproof_faults.conditions.builders import share_coordinator as share_coordinator
from ackproof_faults.conditions.observation import SendCounts as SendCounts
from ackproof_faults.control import NoFault as NoFault
from ackproof_faults.disk.damaged import DeleteIndex as DeleteIndex
from ackproof_faults.disk.damaged import OldCheckpoint as OldCheckpoint
from ackproof_faults.disk.damaged import ReplaceDisk as ReplaceDisk
from ackproof_faults.disk.damaged import TruncateIndex as TruncateIndex
from ackproof_faults.disk.damaged import WipePartition as WipePartition
from ackproof_faults.disk.damaged import WipeVolume as WipeVolume
from ackproof_faults.disk.flip_byte import FlipByte as FlipByte
from ackproof_faults.disk.power_loss import LyingDisk as LyingDisk
from ackproof_faults.disk.power_loss import PowerLoss as PowerLoss
from ackproof_faults.disk.slow import SlowDisk as SlowDisk
from ackproof_faults.disk.unreachable import DiskFull as DiskFull
from ackproof_faults.disk.unreachable import FailLogDir as FailLogDir
from ackproof_faults.evidence import Evidence as Evidence
from ackproof_faults.evidence import FaultError as FaultError
from ackproof_faults.evidence import FaultWindow as FaultWindow
from ackproof_faults.external import Command as Command
from ackproof_faults.external import Docker as Docker
from ackproof_faults.fault import Fault as Fault
from ackproof_faults.fault import Problem as Problem
from ackproof_faults.fault import Shape as Shape
from ackproof_faults.fault import fault_of as fault_of
from ackproof_faults.guard import Guard as Guard
from ackproof_faults.guard import inject as inject
from ackproof_faults.interfaces.cluster import Cluster as Cluster
from ackproof_faults.interfaces.cluster import CommandResult as CommandResult
from ackproof_faults.interfaces.cluster import InterfaceNames as InterfaceNames
from ackproof_faults.interfaces.kernel import Need as Need
from ackproof_faults.network.connections import HalfOpen as HalfOpen
from ackproof_faults.network.connections import ResetConnections as ResetConnections
from ackproof_faults.network.cuts import Bridge as Bridge
from ackproof_faults.network.cuts import Flapping as Flapping
from ackproof_faults.network.cuts import Isolate as Isolate
from ackproof_faults.network.cuts import MajoritiesRing as MajoritiesRing
from ackproof_faults.network.cuts import Partition as Partition
from ackproof_faults.network.cuts import Split as Split
from ackproof_faults.network.isolate_replication import IsolateReplication as IsolateReplication
from ackproof_faults.network.link import LinkFault as LinkFault
from ackproof_faults.network.slowed import Bandwidth as Bandwidth
from ackproof_faults.network.slowed import Latency as Latency
from ackproof_faults.network.slowed import PacketLoss as PacketLoss
from ackproof_faults.operations.busy_coordinator import BusyCoordinator as BusyCoordinator
from ackproof_faults.operations.groups import DeleteOffsets as DeleteOffsets
from ackproof_faults.operations.groups import ResetOffsets as ResetOffsets
from ackproof_faults.operations.nodes import AddBroker as AddBroker
from ackproof_faults.operations.nodes import AddController as AddController
from ackproof_faults.operations.nodes import RemoveBroker as RemoveBroker
from ackproof_faults.operations.nodes import RemoveController as RemoveController
from ackproof_faults.operations.topics import AddPartitions as AddPartitions
from ackproof_faults.operations.topics import AlterConfig as AlterConfig
from ackproof_faults.operations.topics import (
    ChangeReplicationFactor as ChangeReplicationFactor,
)
from ackproof_faults.operations.topics import PreferredElection as PreferredElection
from ackproof_faults.operations.topics import Reassign as Reassign
from ackproof_faults.operations.topics import RecreateTopic as RecreateTopic
from ackproof_faults.operations.topics import UncleanElection as UncleanElection
from ackproof_faults.operations.upgrade import Upgrade as Upgrade
from ackproof_faults.operations.upgrade import UpgradeFeature as UpgradeFeature
from ackproof_faults.process.skew_clock import DriftClock as DriftClock
from ackproof_faults.process.skew_clock import SkewClock as SkewClock
from ackproof_faults.process.stops import CrashLoop as CrashLoop
from ackproof_faults.process.stops import Kill as Kill
from ackproof_faults.process.stops import KillCluster as KillCluster
from ackproof_faults.process.stops import OomKill as OomKill
from ackproof_faults.process.stops import Pause as Pause
from ackproof_faults.process.stops import Restart as Restart
from ackproof_faults.process.stops import RollingRestart as RollingRestart
from ackproof_faults.registry import registered as registered
from ackproof_faults.schedule.blocks import ChoiceBlock as ChoiceBlock
from ackproof_faults.schedule.blocks import ParallelBlock as ParallelBlock
from ackproof_faults.schedule.blocks import RandomBlock as RandomBlock
from ackproof_faults.schedule.blocks import SequenceBlock as SequenceBlock
from ackproof_faults.schedule.blocks import StepList as StepList
from ackproof_faults.schedule.blocks import every_fault as every_fault
from ackproof_faults.schedule.blocks import plain as plain
from ackproof_faults.schedule.context import BlastRadius as BlastRadius
from ackproof_faults.schedule.context import ScheduleContext as ScheduleContext
from ackproof_faults.schedule.runners import Schedule as Schedule
from ackproof_faults.schedule.sampling import times_begun as times_begun
