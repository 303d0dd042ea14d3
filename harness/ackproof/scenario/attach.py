"""The key `cluster.attach` of a scenario: a cluster that ackproof did not start.

Secret client settings are read from the environment (`${env:NAME}`), so that they are neither in
the file nor in the copy of it in the run directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from ackproof.errors import ScenarioError
from ackproof.scenario.librdkafka import forbidden, unreadable_files
from ackproof.scenario.types import (
    Problem,
    Setting,
    StrictModel,
    YamlPath,
    padding,
    setting_text,
)
from ackproof_faults import Fault, registered
from ackproof_faults.interfaces.cluster import InterfaceName
from ackproof_faults.schedule.blocks import located_faults

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(r"password|secret|\.key\.pem$|oauthbearer\.config|jaas")
_OWNED = ("bootstrap.servers", "metadata.broker.list", "client.id", "group.id")


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
        """Return the interfaces that the fault requires and an attached cluster lacks."""
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

    return _REFERENCE.sub(value_of, value)


def attach_problems(
    attach: AttachSpec,
    *,
    others: set[str],
    topics: Mapping[str, object],
    creates_topics: bool,
    faults: Sequence[Any],
) -> Iterator[Problem]:
    """Yield what is wrong with a scenario for an attached cluster.

    others: the other keys in `cluster`. topics, faults: those of the scenario; creates_topics:
    whether a run creates and deletes its topics.
    """
    where: YamlPath = ("cluster", "attach")
    for key in sorted(others):
        yield (
            ("cluster", key),
            f"{key} is for clusters that ackproof starts: remove it, or remove cluster.attach",
        )
    for key, value in attach.client.items():
        if problem := padding(key):
            yield (*where, "client", key), problem
        elif key in _OWNED:
            yield (*where, "client", key), f"{key} is set by ackproof itself: remove it"
        elif reason := forbidden(key):
            yield (*where, "client", key), reason
        elif _SECRET.search(key) and not _REFERENCE.fullmatch(str(value)):
            # The message does not repeat the value, which may be the secret.
            yield (
                (*where, "client", key),
                f"{key} is a secret: write '${{env:NAME}}' and set the environment variable NAME",
            )
        elif problem := padding(value):
            yield (*where, "client", key), problem
    for key, problem in unreadable_files(attach.client):
        yield (*where, "client", key), problem
    for name in topics if creates_topics else ():
        if not name.startswith(attach.topic_prefix):
            yield (
                ("topics", name),
                f"{name!r} must begin with {attach.topic_prefix!r} (cluster.attach.topic_prefix)",
            )
    if attach.i_own is not None and attach.i_own != attach.bootstrap:
        yield (
            (*where, "i_own"),
            f"{attach.i_own!r} is not the cluster that the scenario attaches to: repeat "
            f"{attach.bootstrap!r} here if you may break that one",
        )
    yield from _fault_problems(attach, faults)


def _fault_problems(attach: AttachSpec, steps: Sequence[Any]) -> Iterator[Problem]:
    for where, fault in located_faults(steps):
        place: YamlPath = ("faults", *where, "fault")
        missing = attach.missing(fault)
        obtainable = {"processes", "freezer", "network"}
        if not set(missing) <= obtainable:
            legal = ", ".join(
                name for name, kind in registered().items() if not attach.missing(kind)
            )
            yield (
                place,
                f"{fault.name!r} needs {', '.join(missing)}, so it needs a cluster that ackproof "
                f"started (with attach: {legal})",
            )
        elif fault.touches_brokers and attach.i_own is None:
            yield (
                place,
                f"{fault.name!r} breaks a cluster that ackproof did not start: "
                f"set cluster.attach.i_own to {attach.bootstrap!r}",
            )
        elif missing:
            yield (
                place,
                f"set cluster.attach.containers to the containers that {fault.name!r} may act on"
                + (", and cluster.attach.listeners to their ports" if "network" in missing else ""),
            )
