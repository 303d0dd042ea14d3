"""What a Java producer really works with, compared with what the scenario takes it to."""

from __future__ import annotations

import json

from ackproof.clients.spec import ProducerSpec
from ackproof.scenario.model import Scenario

_PROTOCOL = "transaction.protocol"


def differences(spec: ProducerSpec, scenario: Scenario) -> list[str]:
    """Return where the settings that a producer has read back differ from the predicted ones.

    The client changes some silently: without `enable.idempotence` it switches idempotence off if
    another setting conflicts, and raises acks and retries with it. A producer that ended before it
    had its settings, and one of librdkafka, has none.
    """
    if spec.java is None or not spec.in_force.is_file():
        return []
    sends = scenario.sends[spec.topic]
    expected: dict[str, object] = {
        "acks": sends.settings.acks,
        "enable.idempotence": sends.settings.idempotence,
        "retries": sends.settings.retries,
    }
    found = json.loads(spec.in_force.read_text())
    if _PROTOCOL in found and scenario.cluster.attach is None:
        expected[_PROTOCOL] = scenario.transaction_protocol(sends.client)
    return [
        f"producer {spec.number} works with {key}={json.dumps(found.get(key))}, and the prediction "
        f"took it to be {json.dumps(value)}"
        for key, value in expected.items()
        if found.get(key) != value
    ]
