"""An executable model of Kafka's replication of one partition.

`predict` returns what a configuration and a fault schedule can do to acked records, by searching
all interleavings. Standard library only, pure functions. `docs/explanation/model.md` describes what
is modelled, the source of each rule, and what is left out.
"""

from ackproof_model.configuration import Acks as Acks
from ackproof_model.configuration import Configuration as Configuration
from ackproof_model.configuration import Profile as Profile
from ackproof_model.effects import Configures as Configures
from ackproof_model.effects import Cuts as Cuts
from ackproof_model.effects import Effect as Effect
from ackproof_model.effects import Elects as Elects
from ackproof_model.effects import Ends as Ends
from ackproof_model.effects import LateFetches as LateFetches
from ackproof_model.effects import LateMetadata as LateMetadata
from ackproof_model.effects import QuorumLost as QuorumLost
from ackproof_model.effects import Stalls as Stalls
from ackproof_model.prediction.availability import Ability as Ability
from ackproof_model.prediction.availability import Availability as Availability
from ackproof_model.prediction.diagram import Diagram as Diagram
from ackproof_model.prediction.diagram import Line as Line
from ackproof_model.prediction.diagram import draw as draw
from ackproof_model.prediction.fault_schedule import AnyOf as AnyOf
from ackproof_model.prediction.fault_schedule import AnyTime as AnyTime
from ackproof_model.prediction.fault_schedule import Condition as Condition
from ackproof_model.prediction.fault_schedule import Elapsed as Elapsed
from ackproof_model.prediction.fault_schedule import FaultEvent as FaultEvent
from ackproof_model.prediction.fault_schedule import Injection as Injection
from ackproof_model.prediction.fault_schedule import IsrIs as IsrIs
from ackproof_model.prediction.fault_schedule import IsrSize as IsrSize
from ackproof_model.prediction.fault_schedule import LeaderChanged as LeaderChanged
from ackproof_model.prediction.fault_schedule import LeaderIs as LeaderIs
from ackproof_model.prediction.fault_schedule import Progress as Progress
from ackproof_model.prediction.fault_schedule import Role as Role
from ackproof_model.prediction.predict import ANOMALIES as ANOMALIES
from ackproof_model.prediction.predict import Likelihood as Likelihood
from ackproof_model.prediction.predict import Prediction as Prediction
from ackproof_model.prediction.predict import join as join
from ackproof_model.prediction.predict import predict as predict
