"""The `cluster.attach:` of a scenario: a cluster that is there already, and what may be done to it.

Whatever is secret in the client settings comes from the environment (`${env:NAME}`), so that it is
neither in the file nor in the copy of it that a run keeps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from ackproof.errors import ScenarioError
from ackproof.scenario.types import Model, Place, Setting
from ackproof_faults import Fault, registered
from ackproof_faults.interfaces.cluster import InterfaceName
from ackproof_faults.schedule.blocks import located_faults

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(r"password|secret|\.key\.pem$|oauthbearer\.config|jaas")
_OWNED = ("bootstrap.servers", "metadata.broker.list", "client.id", "group.id")


class AttachSpec(Model):
    """A cluster that ackproof did not start: workload and checks, on topics of its own."""

    bootstrap: str = Field(
        pattern=r"^[^\s,:]+:[0-9]+(,[^\s,:]+:[0-9]+)*$",
        description="where clients begin: host:port, comma-separated",
        examples=["kafka-1:9092,kafka-2:9092"],
    )
    topic_prefix: str = Field(
        pattern=r"^[A-Za-z0-9._-]{3,100}$",
        description="every topic of the scenario begins with it; they are created, and deleted in "
        "the end, and no other topic is touched",
        examples=["ackproof-"],
    )
    client: dict[str, Setting] = Field(
        default_factory=dict,
        description="client settings, in librdkafka's names; secrets as ${env:NAME}",
        examples=[{"security.protocol": "SASL_SSL", "sasl.password": "${env:KAFKA_PASSWORD}"}],
    )
    i_own: str | None = Field(
        default=None,
        description="the same as `bootstrap`: says that its author may break this cluster; "
        "without it, no faults",
    )
    containers: dict[int, str] = Field(
        default_factory=dict,
        description="the container of each broker id that faults of processes may touch",
        examples=[{1: "kafka-1", 2: "kafka-2"}],
    )

    @property
    def offered(self) -> frozenset[InterfaceName]:
        """The interfaces of an attached cluster that faults may use."""
        offered: set[InterfaceName] = {"metadata", "clients"}
        return frozenset(offered | ({"processes"} if self.containers else set()))

    def missing(self, fault: Fault | type[Fault]) -> list[InterfaceName]:
        """Return the interfaces that the fault requires and an attached cluster lacks."""
        return [name for name in fault.requires if name not in self.offered]

    def client_settings(self) -> dict[str, str]:
        """Return the client settings with what the environment says; secret.

        Raises ScenarioError for a variable that is not set.
        """
        return {key: _resolved(key, _text(value)) for key, value in self.client.items()}


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _resolved(key: str, value: str) -> str:
    def found(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ScenarioError(
                f"cluster.attach.client.{key} asks for the environment variable {match[1]}, which "
                "is not set",
                hint=f"Set it for this command: {match[1]}=… ackproof run …",
            )
        return os.environ[match[1]]

    return _REFERENCE.sub(found, value)


def problems(
    attach: AttachSpec, *, others: set[str], topics: Mapping[str, object], faults: Sequence[Any]
) -> Iterator[tuple[Place, str]]:
    """Yield what cannot be, as (place, problem).

    `others` are the further keys of `cluster:`, `topics` and `faults` those of the scenario.
    """
    where: Place = ("cluster", "attach")
    for key in sorted(others):
        yield ("cluster", key), f"{key} is for a cluster that ackproof starts: not with attach"
    for key, value in attach.client.items():
        if key in _OWNED:
            yield (*where, "client", key), f"{key} is set by ackproof itself: remove it"
        elif _SECRET.search(key) and not _REFERENCE.fullmatch(str(value)):
            # The value is not repeated: it may be the secret.
            yield (
                (*where, "client", key),
                f"{key} is a secret: write '${{env:NAME}}' and set the variable NAME",
            )
    for name in topics:
        if not name.startswith(attach.topic_prefix):
            yield ("topics", name), f"{name!r} must begin with {attach.topic_prefix!r}"
    if attach.i_own is not None and attach.i_own != attach.bootstrap:
        yield (
            (*where, "i_own"),
            f"{attach.i_own!r} is not the cluster that the scenario attaches to "
            f"({attach.bootstrap!r}): say which one you mean",
        )
    yield from _fault_problems(attach, faults)


def _fault_problems(attach: AttachSpec, steps: Sequence[Any]) -> Iterator[tuple[Place, str]]:
    for where, fault in located_faults(steps):
        place: Place = ("faults", *where, "fault")
        missing = attach.missing(fault)
        if missing not in ([], ["processes"]):
            legal = ", ".join(
                name for name, kind in registered().items() if not attach.missing(kind)
            )
            yield (
                place,
                f"{fault.name!r} needs {', '.join(missing)}, so it needs a cluster that ackproof "
                f"started (with attach: {legal})",
            )
        elif fault.effect not in ("none", "clients") and attach.i_own is None:
            yield (
                place,
                f"{fault.name!r} breaks a cluster that ackproof did not start: "
                f"cluster.attach.i_own must say {attach.bootstrap!r}",
            )
        elif missing:
            yield (
                place,
                f"cluster.attach.containers must name the containers that {fault.name!r} may touch",
            )
