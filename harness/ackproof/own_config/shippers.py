"""The producers of programs that ship logs and metrics."""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.own_config.clients import clients
from ackproof.own_config.configuration import Default
from ackproof.own_config.parts import Part, Source
from ackproof.own_config.tree import Text


def producers(source: Source, outputs: Mapping[str, Mapping[str, Text]], *, framework: str) -> Part:
    """Return a producer for each named output; only their acks differ."""
    acks = {
        name: own.get("producer.required_acks") or own.get("required_acks")
        for name, own in outputs.items()
    }
    return clients(
        source,
        {
            ("producer", name if len(acks) > 1 else ""): {"acks": stated} if stated else {}
            for name, stated in acks.items()
        },
        shape="shipper",
        framework=framework,
        defaults={"acks": "1", "enable.idempotence": "false"},
        origin=Default(framework),
    )
