"""The results of an operator's steps, from any state of a partition.

`Situation` is the state as disks and the controllers' log have it. `outcome` takes steps of an
operator from there, and searches every order of all that the brokers do by themselves.
"""

from ackproof_model.advice.outcome import Ability as Ability
from ackproof_model.advice.outcome import Outcome as Outcome
from ackproof_model.advice.outcome import merged as merged
from ackproof_model.advice.outcome import outcome as outcome
from ackproof_model.advice.outcome import writes_after as writes_after
from ackproof_model.advice.situation import Offsets as Offsets
from ackproof_model.advice.situation import Replica as Replica
from ackproof_model.advice.situation import ReplicaLog as ReplicaLog
from ackproof_model.advice.situation import Situation as Situation
from ackproof_model.advice.steps import Elect as Elect
from ackproof_model.advice.steps import Fail as Fail
from ackproof_model.advice.steps import MinIsr as MinIsr
from ackproof_model.advice.steps import Move as Move
from ackproof_model.advice.steps import Replace as Replace
from ackproof_model.advice.steps import Start as Start
from ackproof_model.advice.steps import Step as Step
from ackproof_model.advice.steps import Stop as Stop
from ackproof_model.advice.steps import down_brokers as down_brokers
from ackproof_model.advice.steps import sequences as sequences
from ackproof_model.advice.steps import with_failure as with_failure
