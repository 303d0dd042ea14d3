"""Plans: schedules of operations that make a loss happen on a cluster.

`adversary.search` finds a shortest trace to a loss. `realized` finds operations that cause the loss
on a cluster where every step without a timer is prompt. Where nothing can be lost, `covering_plans`
finds schedules that together have the most kinds of steps.
"""

from ackproof_model.planning.covering import (
    ModelContradictsItselfError as ModelContradictsItselfError,
)
from ackproof_model.planning.covering import covering_plans as covering_plans
from ackproof_model.planning.covering import kinds as kinds
from ackproof_model.planning.plan import Plan as Plan
from ackproof_model.planning.plan import Stage as Stage
from ackproof_model.planning.plan import carried_out as carried_out
from ackproof_model.planning.plan import held_requests as held_requests
from ackproof_model.planning.plan import reached as reached
from ackproof_model.planning.plan import realized as realized
from ackproof_model.planning.plan import shortest_divergence as shortest_divergence
from ackproof_model.planning.plan import shortest_loss as shortest_loss
from ackproof_model.planning.plan import with_clean_stops as with_clean_stops
from ackproof_model.planning.plan import with_records as with_records
from ackproof_model.planning.plan_state import CLIENT_HOLDS as CLIENT_HOLDS
from ackproof_model.planning.plan_state import HEALS as HEALS
from ackproof_model.planning.plan_state import PROCESS_STOPS as PROCESS_STOPS
from ackproof_model.planning.plan_state import REQUESTS as REQUESTS
from ackproof_model.planning.plan_state import Operation as Operation
from ackproof_model.planning.plan_state import OperationKind as OperationKind
from ackproof_model.planning.through import plans_to as plans_to
from ackproof_model.planning.variation import Operations as Operations
from ackproof_model.planning.variation import drawn as drawn
from ackproof_model.planning.variation import mutated as mutated
from ackproof_model.planning.variation import permitted as permitted
from ackproof_model.planning.variation import smaller as smaller
