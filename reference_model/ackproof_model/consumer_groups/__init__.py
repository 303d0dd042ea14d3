"""Committed offsets: the records that a consumer group skips or processes twice.

The model has one partition, a group in which one member at a time owns it, and processing with a
lasting effect. A member that was removed from the group processes its polled records until one of
its requests is refused. Only perturbations are counted, see
`OffsetBudgets`.

The group's rules are those of `GroupCoordinator` (KIP-98, KIP-447), the members' those of
librdkafka and of the Java client.
"""

from ackproof_model.consumer_groups.members import ANOMALIES as ANOMALIES
from ackproof_model.consumer_groups.members import search as search
from ackproof_model.consumer_groups.model import CommitMode as CommitMode
from ackproof_model.consumer_groups.model import OffsetBudgets as OffsetBudgets
from ackproof_model.consumer_groups.model import OffsetModel as OffsetModel
