"""From a loss that the model finds to a schedule that makes it happen on a cluster.

`adversary.search` finds a shortest way to a loss; `realized` finds the operations that take it
where nothing dawdles; `covering_plans` those that come closest where nothing can be lost.
"""

from ackproof_model.planning.coverage import ModelContradictsItselfError, covering_plans, kinds
from ackproof_model.planning.plan import (
    MOST_OPERATIONS,
    Plan,
    Stage,
    carried_out,
    realized,
    with_clean_stops,
)
from ackproof_model.planning.plan_state import (
    CUTS,
    HEALS,
    PROCESS_STOPS,
    Operation,
    OperationKind,
    PlanState,
)

__all__ = [
    "CUTS",
    "HEALS",
    "MOST_OPERATIONS",
    "PROCESS_STOPS",
    "ModelContradictsItselfError",
    "Operation",
    "OperationKind",
    "Plan",
    "PlanState",
    "Stage",
    "carried_out",
    "covering_plans",
    "kinds",
    "realized",
    "with_clean_stops",
]
