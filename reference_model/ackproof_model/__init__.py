"""An executable model of Kafka's replication of one partition.

`predict` returns what a configuration and a fault schedule can do to acked records, by searching
all interleavings. Standard library only, pure functions. `docs/explanation/model.md` describes what
is modelled, the source of each rule, and what is left out.

A name is imported from its module when it is first used, so that an audit, which searches no
schedule, does not load the search.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackproof_model.configuration import Acks as Acks
    from ackproof_model.configuration import Configuration as Configuration
    from ackproof_model.configuration import Profile as Profile
    from ackproof_model.effects import Configures as Configures
    from ackproof_model.effects import Cuts as Cuts
    from ackproof_model.effects import Effect as Effect
    from ackproof_model.effects import Elects as Elects
    from ackproof_model.effects import Ends as Ends
    from ackproof_model.effects import LateFetches as LateFetches
    from ackproof_model.effects import LateIsrChanges as LateIsrChanges
    from ackproof_model.effects import LateMetadata as LateMetadata
    from ackproof_model.effects import QuorumLost as QuorumLost
    from ackproof_model.effects import Stalls as Stalls
    from ackproof_model.prediction.diagram import draw as draw
    from ackproof_model.prediction.fault_schedule import AnyOf as AnyOf
    from ackproof_model.prediction.fault_schedule import AnyTime as AnyTime
    from ackproof_model.prediction.fault_schedule import Condition as Condition
    from ackproof_model.prediction.fault_schedule import Elapsed as Elapsed
    from ackproof_model.prediction.fault_schedule import ElrIs as ElrIs
    from ackproof_model.prediction.fault_schedule import FaultEvent as FaultEvent
    from ackproof_model.prediction.fault_schedule import Injection as Injection
    from ackproof_model.prediction.fault_schedule import IsrIs as IsrIs
    from ackproof_model.prediction.fault_schedule import IsrSize as IsrSize
    from ackproof_model.prediction.fault_schedule import LeaderChanged as LeaderChanged
    from ackproof_model.prediction.fault_schedule import LeaderIs as LeaderIs
    from ackproof_model.prediction.fault_schedule import Progress as Progress
    from ackproof_model.prediction.fault_schedule import Role as Role
    from ackproof_model.prediction.predict import ANOMALIES as ANOMALIES
    from ackproof_model.prediction.predict import join as join
    from ackproof_model.prediction.predict import predict as predict
    from ackproof_model.prediction.result import Ability as Ability
    from ackproof_model.prediction.result import Availability as Availability
    from ackproof_model.prediction.result import Diagram as Diagram
    from ackproof_model.prediction.result import Likelihood as Likelihood
    from ackproof_model.prediction.result import Line as Line
    from ackproof_model.prediction.result import Prediction as Prediction
else:
    _EFFECTS = (
        "Configures Cuts Effect Elects Ends LateFetches LateIsrChanges LateMetadata QuorumLost"
        " Stalls"
    )
    _SCHEDULE = (
        "AnyOf AnyTime Condition Elapsed ElrIs FaultEvent Injection IsrIs IsrSize LeaderChanged"
        " LeaderIs Progress Role"
    )
    _MODULES = {
        name: module
        for module, names in {
            "configuration": "Acks Configuration Profile",
            "effects": _EFFECTS,
            "prediction.diagram": "draw",
            "prediction.fault_schedule": _SCHEDULE,
            "prediction.predict": "ANOMALIES join predict",
            "prediction.result": "Ability Availability Diagram Likelihood Line Prediction",
        }.items()
        for name in names.split()
    }
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
