"""An executable model of Kafka's replication of one partition.

`predict` returns what a configuration and a fault schedule can do to acked records, by searching
all interleavings. Standard library only, pure functions. `docs/model.md` describes what is
modelled, the source of each rule, and what is left out.
"""

from ackproof_model.configuration import Acks, Configuration, Profile
from ackproof_model.prediction.predict import (
    ANOMALIES,
    Likelihood,
    Prediction,
    join,
    predict,
)
from ackproof_model.replication.fault_schedule import (
    Condition,
    Elapsed,
    FaultName,
    Injection,
    IsrSize,
    LeaderChanged,
    Progress,
    Role,
)
from ackproof_model.replication.safety_checks import SafetyChecks

__all__ = [
    "ANOMALIES",
    "Acks",
    "Condition",
    "Configuration",
    "Elapsed",
    "FaultName",
    "Injection",
    "IsrSize",
    "LeaderChanged",
    "Likelihood",
    "Prediction",
    "Profile",
    "Progress",
    "Role",
    "SafetyChecks",
    "join",
    "predict",
]
