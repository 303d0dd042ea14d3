"""What a Java producer really works with, compared with what the scenario takes it to."""

from __future__ import annotations

import json

from ackproof.clients.spec import ProducerSpec
from ackproof.scenario.model import Scenario


def differences(spec: ProducerSpec, scenario: Scenario) -> list[str]:
    """Return where the settings that a producer has read back differ from the predicted ones.

    The client changes some silently: without `enable.idempotence` it switches idempotence off if
    another setting conflicts, and raises acks and retries with it. A producer that ended before it
    had its settings, and one of librdkafka, has none.
    """
    path = spec.progress.with_suffix(".in-force.json")
    if spec.java is None or not path.is_file():
        return []
    settings = scenario.sends[spec.topic].settings
    expected = {
        "acks": settings.acks,
        "enable.idempotence": settings.idempotence,
        "retries": settings.retries,
    }
    found = json.loads(path.read_text())
    return [
        f"producer {spec.number} works with {key}={json.dumps(found.get(key))}, and the prediction "
        f"took it to be {json.dumps(value)}"
        for key, value in expected.items()
        if found.get(key) != value
    ]
