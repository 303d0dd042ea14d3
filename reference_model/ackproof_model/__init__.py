"""An executable model of Kafka's replication of one partition.

`predict` returns what a configuration and a fault schedule can do to acked records, by searching
all interleavings. Standard library only, pure functions. `docs/explanation/model.md` describes what
is modelled, the source of each rule, and what is left out.
"""

from ackproof_model.configuration import Acks, Configuration, Profile
from ackproof_model.effects import Configures, Cuts, Effect, Elects, Ends, QuorumLost, Stalls
from ackproof_model.prediction.availability import Ability, Availability
from ackproof_model.prediction.diagram import Diagram, Line, draw
from ackproof_model.prediction.predict import (
    ANOMALIES,
    Likelihood,
    Prediction,
    join,
    predict,
)
from ackproof_model.replication.fault_schedule import (
    AnyOf,
    AnyTime,
    Condition,
    Elapsed,
    FaultEvent,
    Injection,
    IsrIs,
    IsrSize,
    LeaderChanged,
    LeaderIs,
    Progress,
    Role,
)

__all__ = [
    "ANOMALIES",
    "Ability",
    "Acks",
    "AnyOf",
    "AnyTime",
    "Availability",
    "Condition",
    "Configuration",
    "Configures",
    "Cuts",
    "Diagram",
    "Effect",
    "Elapsed",
    "Elects",
    "Ends",
    "FaultEvent",
    "Injection",
    "IsrIs",
    "IsrSize",
    "LeaderChanged",
    "LeaderIs",
    "Likelihood",
    "Line",
    "Prediction",
    "Profile",
    "Progress",
    "QuorumLost",
    "Role",
    "Stalls",
    "draw",
    "join",
    "predict",
]
