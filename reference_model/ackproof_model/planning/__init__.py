"""Plans: schedules of operations that make a loss happen on a cluster.

`adversary.search` finds a shortest trace to a loss. `realized` finds operations that cause the loss
on a cluster where every step without a timer is prompt. Where nothing can be lost, `covering_plans`
finds schedules that together have the most kinds of steps.
"""

from ackproof_model.planning.plan import (
    MOST_OPERATIONS,
    ModelContradictsItselfError,
    Plan,
    Stage,
    carried_out,
    covering_plans,
    kinds,
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
