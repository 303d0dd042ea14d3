"""The Java producer may send a batch under the partition of another one (KAFKA-19012).

It gives the buffer of a batch that expires back to its pool, also while the request that has it is
being written to the connection. The next batch is written into the same buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.kafka_versions import numbers
from ackproof.prediction.reasons import ClientPrediction
from ackproof.scenario.model import Scenario
from ackproof_model import Likelihood
from ackproof_spark.anomaly import Anomaly

_SINCE = (2, 8)
#: The first fixed version of each line that was fixed later.
_FIXED_IN = ((3, 9, 2), (4, 0, 2), (4, 1, 2))


def predict(scenario: Scenario) -> Iterator[ClientPrediction]:
    """Yield the prediction for producers of an affected version; batches expire under faults."""
    fault = next((one.name for one in scenario.every_fault if one.effects), "")
    versions = {sends.client.java for sends in scenario.sends.values() if sends.client.java}
    for version in sorted(versions):
        if fault and _affected(version):
            yield (
                Anomaly.PHANTOM,
                Likelihood.POSSIBLE,
                f"{fault}: the Java client {version} may overwrite a batch that expires while its "
                "request is written (KAFKA-19012)",
            )


def _affected(version: str) -> bool:
    release = numbers(version)
    fixed = any(release[:2] == first[:2] and release >= first for first in _FIXED_IN)
    return _SINCE <= release < (4, 2) and not fixed
