"""Asks the reference model what a scenario may lead to, before it runs.

The model speaks of one partition and one fault after another. A scenario is put to it once for
each partition of the topic, because a fault on "the leader of orders-0" hits that partition's
leader for certain and any replica of another partition; the answers are joined.
"""

from __future__ import annotations

from ackproof.harness.run_dir import PredictionRecord
from ackproof.harness.scenario import Scenario
from ackproof.harness.verdict import PredictionReport
from ackproof.reference_model import (
    join,
)

# Kafka's defaults: ReplicationConfigs and ServerConfigs, in milliseconds.
_LAG_TIME_MS = 30_000
_SESSION_TIMEOUT_MS = 9_000


def foresee(scenario: Scenario) -> PredictionRecord:
    """Return what the model says about every anomaly, and why."""
    joined = join([_of_partition(scenario, n) for n in range(scenario.topic.partitions)])
    return PredictionRecord(
        predicted={name: outlook.value for name, outlook in joined.outlook.items()},
        prediction=PredictionReport(
            trace=list(joined.trace), reasons=dict(joined.reasons), bounds=joined.bounds
        ),
    )
