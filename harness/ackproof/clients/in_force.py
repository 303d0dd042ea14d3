"""What clients really work with, compared with what the scenario takes it to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.spec import ProducerSpec
from ackproof.scenario.model import Scenario

_PROTOCOL = "transaction.protocol"


def differences(spec: ProducerSpec | ConsumerSpec, scenario: Scenario) -> list[str]:
    """Return where what a client has read back differs from what the scenario has.

    For librdkafka that is its version. A Java producer changes some settings silently: without
    `enable.idempotence` it switches idempotence off if another setting conflicts, and raises acks
    and retries with it. A client that ended before it read anything back has no differences.
    """
    if not spec.in_force.is_file():
        return []
    found = json.loads(spec.in_force.read_text())
    if isinstance(spec, ProducerSpec) and spec.java is not None:
        return _of_java(spec, scenario, found)
    if spec.librdkafka in (None, found["librdkafka"]):
        return []
    kind = "producer" if isinstance(spec, ProducerSpec) else "consumer"
    return [
        f"{kind} {spec.number} works with librdkafka {found['librdkafka']}, and the scenario has "
        f"{spec.librdkafka}"
    ]


def _of_java(spec: ProducerSpec, scenario: Scenario, found: Mapping[str, Any]) -> list[str]:
    sends = scenario.sends[spec.topic]
    expected: dict[str, object] = {
        "acks": sends.settings.acks,
        "enable.idempotence": sends.settings.idempotence,
        "retries": sends.settings.retries,
    }
    if _PROTOCOL in found and scenario.cluster.attach is None:
        expected[_PROTOCOL] = scenario.transaction_protocol(sends.client)
    return [
        f"producer {spec.number} works with {key}={json.dumps(found.get(key))}, and the prediction "
        f"took it to be {json.dumps(value)}"
        for key, value in expected.items()
        if found.get(key) != value
    ]
