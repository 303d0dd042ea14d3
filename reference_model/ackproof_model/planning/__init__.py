"""From a loss that the model finds to a schedule that makes it happen on a cluster.

`adversary.search` finds a shortest way to a loss; `realized` finds the operations that take it
where nothing dawdles; `nastiest` those that come closest where nothing can be lost.
"""

from ackproof_model.planning.coverage import ModelContradictsItselfError, kinds, nastiest
from ackproof_model.planning.plan import (
    MOST_OPERATIONS,
    Plan,
    Stage,
    carried_out,
    realized,
    with_clean_stops,
)
from ackproof_model.planning.scene import (
    CUTS,
    ENDS,
    HEALS,
    Deed,
    Operation,
    Scene,
)

__all__ = [
    "CUTS",
    "ENDS",
    "HEALS",
    "MOST_OPERATIONS",
    "Deed",
    "ModelContradictsItselfError",
    "Operation",
    "Plan",
    "Scene",
    "Stage",
    "carried_out",
    "kinds",
    "nastiest",
    "realized",
    "with_clean_stops",
]
