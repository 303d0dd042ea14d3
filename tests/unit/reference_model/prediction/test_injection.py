"""What a fault that is injected, or healed, does to the controller's records."""

from __future__ import annotations

import pytest

from ackproof_model import Configures
from ackproof_model.prediction.injection import heal, inject
from ackproof_model.prediction.model import Model
from unit.reference_model.schedules import injection

LEADER_ALONE = 0b001
ELIGIBLE = 0b110

LOWERED = Configures(topic="orders", key="min.insync.replicas", value="1")
UNCLEAN = Configures(topic="orders", key="unclean.leader.election.enable", value="true")


@pytest.mark.parametrize(
    ("version", "change", "kept"),
    [
        ("4.3.1", LOWERED, 0),
        ("4.3.1", UNCLEAN, ELIGIBLE),
        ("3.9.1", LOWERED, ELIGIBLE),  # it has none: left alone
    ],
)
def test_min_insync_replicas_clears_the_elr_when_it_is_set_and_when_it_is_set_back(
    configure, version, change, kept
):
    model = Model(configure(kafka_version=version), (injection("alter_config", change),))

    def eligible(state):
        controller = state.controller._replace(isr=LEADER_ALONE, elr=ELIGIBLE)
        return state._replace(controller=controller)

    (changed,) = inject(model, eligible(model.initial()), 0, 0)
    assert changed.controller.elr == kept
    assert heal(model, eligible(changed), 0).controller.elr == kept
