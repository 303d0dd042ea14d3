"""The key `cluster.attach` of a scenario: a cluster that ackproof did not start.

Secret client settings are read from the environment (`${env:NAME}`). Neither the file nor its copy
in the run directory contains them.
"""

from __future__ import annotations

import os
import re

from pydantic import Field

from ackproof.errors import ScenarioError
from ackproof.scenario.types import Setting, StrictModel, setting_text
from ackproof_faults import Fault
from ackproof_faults.interfaces.cluster import InterfaceName

#: A reference to an environment variable in a client setting.
REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class AttachSpec(StrictModel):
    """A running cluster. The workload uses topics with a prefix of their own."""

    bootstrap: str = Field(
        pattern=r"^[^\s,:]+:[0-9]+(,[^\s,:]+:[0-9]+)*$",
        description="bootstrap servers: host:port, comma-separated",
        examples=["kafka-1:9092,kafka-2:9092"],
    )
    topic_prefix: str = Field(
        pattern=r"^[A-Za-z0-9._-]{3,100}$",
        description="every topic of the scenario begins with it; these topics are created, and "
        "deleted at the end, and no other topic is touched",
        examples=["ackproof-"],
    )
    client: dict[str, Setting] = Field(
        default_factory=dict,
        description="client settings by librdkafka's names; secrets as ${env:NAME}",
        examples=[{"security.protocol": "SASL_SSL", "sasl.password": "${env:KAFKA_PASSWORD}"}],
    )
    i_own: str | None = Field(
        default=None,
        description="repeat `bootstrap` here to confirm that you may break this cluster; without "
        "it, faults that touch brokers are refused",
    )
    containers: dict[int, str] = Field(
        default_factory=dict,
        description="the container of each broker id that faults may kill, pause or cut off",
        examples=[{1: "kafka-1", 2: "kafka-2"}],
    )
    listeners: dict[str, int] = Field(
        default_factory=dict,
        description="ports inside these containers, for faults of the network: INTERNAL is the "
        "listener between brokers, CONTROLLER that of controllers, every other one is for clients",
        examples=[{"INTERNAL": 9093, "EXTERNAL": 9092}],
    )

    @property
    def offered(self) -> frozenset[InterfaceName]:
        """The interfaces of an attached cluster that faults may use."""
        offered: set[InterfaceName] = {"metadata", "clients"}
        if self.containers:
            offered |= {"processes", "freezer"}
            if self.listeners:
                offered.add("network")
        return frozenset(offered)

    def missing(self, fault: Fault | type[Fault]) -> list[InterfaceName]:
        """Return the interfaces that the fault requires and this cluster does not offer."""
        return [name for name in fault.requires if name not in self.offered]

    def client_settings(self) -> dict[str, str]:
        """Return the client settings with their secrets.

        Raises ScenarioError if an environment variable is not set.
        """
        return {key: _resolved(key, setting_text(value)) for key, value in self.client.items()}


def _resolved(key: str, value: str) -> str:
    def value_of(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ScenarioError(
                f"cluster.attach.client.{key} needs the environment variable {match[1]}, which is "
                "not set",
                hint=f"Set it for this command: {match[1]}=… ackproof run …",
            )
        return os.environ[match[1]]

    return REFERENCE.sub(value_of, value)
