"""The `security:` of a cluster: TLS and SASL on the listeners for clients.

`problems` yields what a Kafka version does not support.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from ackproof.kafka_versions import numbers
from ackproof.scenario.types import Model, Place

#: Settings for one listener and mechanism came with KIP-103 and KIP-226.
_SINCE = (2, 0)
#: SCRAM credentials at format time came with KIP-900. Without them no first client can log in.
_SCRAM_SINCE = (3, 5)


class SecuritySpec(Model):
    """How clients reach the brokers; certificates and passwords are made for the run."""

    tls: Literal["none", "server", "mutual"] = Field(
        default="none",
        description="server: brokers show a certificate; mutual: clients, too",
    )
    sasl: Literal["none", "plain", "scram-sha-512"] = Field(
        default="none", description="how clients log in"
    )

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        if self.sasl == "none":
            return "PLAINTEXT" if self.tls == "none" else "SSL"
        return "SASL_PLAINTEXT" if self.tls == "none" else "SASL_SSL"


def problems(security: SecuritySpec, kafka: str) -> Iterator[tuple[Place, str]]:
    """Yield what this Kafka version does not support, as (place, problem)."""
    if security.protocol != "PLAINTEXT" and numbers(kafka) < _SINCE:
        yield (
            ("cluster", "security"),
            f"ackproof supports TLS and SASL with Kafka from 2.0.0 on, and kafka is {kafka}",
        )
    elif security.sasl == "scram-sha-512" and numbers(kafka) < _SCRAM_SINCE:
        yield (
            ("cluster", "security", "sasl"),
            f"Kafka formats a cluster with SCRAM credentials from 3.5.0 on (KIP-900), and kafka "
            f"is {kafka}: use plain",
        )
