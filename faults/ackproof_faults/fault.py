"""The base class of faults.

A `Fault` is a frozen pydantic model. Its fields are the YAML keys, the JSON Schema and the report's
parameters; other modules use only its class attributes. It acts on a cluster only through the
interfaces of `interfaces.cluster.Cluster`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target, TargetSpec
from ackproof_faults.conditions.trigger import Conditions, Trigger
from ackproof_faults.evidence import Evidence
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.kernel import Need
from ackproof_model.effects import Anything, Client, Effects

#: A field of a fault, and the reason why its value is refused.
Problem = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The cluster and clients of a scenario, as far as they are known before anything boots.

    `topics`: partitions per topic. `log_dirs`: the fewest log directories of any broker. `disk`:
    size of the smallest broker disk in bytes, None if the engine sets no limit. `own_clocks`:
    brokers' clocks can be set. `proxied`: listeners behind the Kafka proxy. `consumers`: members of
    all groups. `programs`: the numbers of those that are programs of the user. `subscribing`: those
    of groups that subscribe, and do not assign or share partitions. `groups`: the topic that each
    group reads. `spared`: the numbers of the members of each group that no fault ends. `unacked`:
    every producer has acks=0. `java`: some producer is Kafka's Java client. `attached`: ackproof
    did not start the cluster; its nodes and listeners are not known.
    """

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    listeners: tuple[str, ...]
    topics: Mapping[str, int]
    log_dirs: int
    disk: int | None
    own_clocks: bool = False
    proxied: tuple[str, ...] = ()
    producers: int = 1
    consumers: int = 0
    programs: frozenset[int] = frozenset()
    subscribing: frozenset[int] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    spared: Mapping[str, Sequence[int]] = field(default_factory=dict)
    transactions: bool = False
    unacked: bool = False
    java: bool = False
    attached: bool = False

    @property
    def combined(self) -> bool:
        """Whether the controllers are also brokers."""
        return bool(set(self.controllers) & set(self.brokers))


def fault_of(fault: str, nodes: str, hit: str | None) -> str:
    """Return a fault and its nodes or clients: `kill of broker 1`, `pause_client of producer 0`.

    `nodes`: its nodes or its target, in words. `hit`: as `Fault.hit_by` returns it.
    """
    of = nodes if hit is None else hit
    return f"{fault} of {of}" if of else fault


def untargeted(description: str) -> Any:
    """Return the field `target` of a fault whose target cannot be chosen."""
    return Field(default=TargetSpec(role="all"), description=description)


class Fault(BaseModel, ABC):
    """One fault: on which nodes, when it begins and when it ends.

    Faults begin in the order in which the scenario lists them, each when all of its `when`
    hold, or `or_after` at the latest. `heal_when` and `heal_after` say the same for its end. With
    neither, a fault is healed as soon as no other fault is waiting to start and no fault with a
    `heal_when` or `heal_after` is in force.

    A fault has no state. `inject` returns an immutable record of its actions, or None. The guard
    passes it as `done` to `verify`, `heal` and `verify_healed`, which narrow its type; `done` is
    None if `inject` failed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    #: Interfaces of the cluster that the fault uses; a cluster without them is refused.
    requires: ClassVar[InterfaceNames] = ("metadata",)
    #: Kernel features that the fault uses; probed before the cluster boots.
    needs: ClassVar[tuple[Need, ...]] = ()
    #: The resource of a node that the fault occupies. A schedule refuses a second fault on it,
    #: because one would undo the other. '' stands for a resource of this fault alone.
    occupies: ClassVar[str] = ""
    #: The field that names what it hits: `target`, `client` or `topic`; '' for the whole cluster.
    hits: ClassVar[str] = "target"
    #: Whether its targets do not serve during the fault; the blast radius counts such targets.
    disables: ClassVar[bool] = True
    #: Whether the model explains everything that controllers and replicas log under this fault;
    #: otherwise the run's traces are not validated.
    explained: ClassVar[bool] = False
    #: Whether a broker's log may hold fewer records afterwards.
    takes_bytes: ClassVar[bool] = False
    #: The parameters with which a scenario sets how many records are lost.
    sized_by: ClassVar[tuple[str, ...]] = ()
    #: Whether it sets brokers' clocks, so that their logs cannot be ordered by time.
    skews_clocks: ClassVar[bool] = False
    #: Whether another run may use the healed cluster, once this run's topics are deleted.
    traceless: ClassVar[bool] = False
    #: What happened to a broker that it stopped or damaged ("was killed"), for explanations of
    #: lost records; '' for other faults.
    past_tense: ClassVar[str] = ""
    #: What `verify` checks, for the table of faults.
    proof: ClassVar[str] = ""

    id: str = Field(
        default="",
        pattern=r"^([a-z][a-z0-9_-]*)?$",
        description="a name for triggers of other faults ('ID began', 'ID ended', 'ID recovered')",
        examples=["cut"],
    )
    target: Target = Field(
        description="leader of TOPIC-N, followers of TOPIC-N, all, any broker, any N brokers, "
        "rack R, active controller, minority or majority of controllers, "
        "share leader of TOPIC-N, share coordinator of GROUP on TOPIC-N, a broker id or a list of "
        "them",
        examples=["leader of orders-0", "followers of orders-0", 2, [1, 3]],
    )
    when: Trigger = Field(
        default=Conditions(),
        description="conditions under which the fault begins; all must hold",
        examples=["2000 acked", ["500 more acked", "isr of orders-0 == 3"]],
    )
    or_after: Duration | None = Field(
        default=None,
        description="begin at the latest this long after the previous fault was verified",
        examples=["5s"],
    )
    heal_when: Trigger = Field(
        default=Conditions(),
        description="conditions under which the fault is healed; all must hold. With neither "
        "heal_when nor heal_after, it is healed as soon as no other fault is waiting to start and "
        "no fault with one of them is in force",
        examples=["leader of orders-0 changed"],
    )
    heal_after: Duration | None = Field(
        default=None,
        description="heal at the latest this long after this fault was verified",
        examples=["20s"],
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Take the name from the field `fault`."""
        super().__pydantic_init_subclass__(**kwargs)
        if "fault" in cls.model_fields and "name" not in vars(cls):
            cls.name = cls.model_fields["fault"].default

    @classmethod
    def hit_by(cls, parameters: Mapping[str, Any]) -> str | None:
        """Return `producer 0`, `topic orders` or `orders-0`; None for a fault that hits nodes.

        '' if no parameter names it. Missing parameters have their defaults.
        """
        if cls.hits == "target":
            return None
        field = cls.model_fields.get(cls.hits)
        default = "" if field is None or field.is_required() else field.default
        hit = str(parameters.get(cls.hits, default))
        if cls.hits != "topic" or not hit:
            return hit
        partition = parameters.get("partition")
        return f"topic {hit}" if partition is None else f"{hit}-{partition}"

    @classmethod
    def hit_by_stored(cls, parameters: str) -> str | None:
        """Return `hit_by` of a window's parameters; None if they are not a JSON object."""
        known = _stored(parameters)
        return None if known is None else cls.hit_by(known)

    @classmethod
    def size_of_stored(cls, parameters: str) -> str:
        """Return the parameter that sets how much is lost, as `last: 200`; '' without one."""
        known = _stored(parameters) or {}
        return ", ".join(
            f"{key}: {known[key]}" for key in cls.sized_by if known.get(key) is not None
        )

    @classmethod
    def effects_of_stored(cls, parameters: str) -> Effects:
        """Return the effects of a fault with a window's parameters; () if they are damaged."""
        try:
            return cls.model_validate_json(parameters).effects
        except ValidationError:
            return ()

    @staticmethod
    def id_of_stored(parameters: str) -> str | None:
        """Return the `id` in a window's parameters, None without one."""
        name = (_stored(parameters) or {}).get("id")
        return name if isinstance(name, str) else None

    def __str__(self) -> str:
        return fault_of(self.name, str(self.target), self.hit_by(dict(self)))

    @property
    def ends_by_itself(self) -> bool:
        """Whether it has `heal_when` or `heal_after`."""
        return bool(self.heal_when) or self.heal_after is not None

    @property
    def effects(self) -> Effects:
        """The effects, for the prediction. A fault that does not override this may do anything."""
        return (Anything(),)

    @property
    def touches_brokers(self) -> bool:
        """Whether it has an effect on something other than clients."""
        return any(not isinstance(effect, Client) for effect in self.effects)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """Yield the reasons why the fault cannot be injected into such a cluster."""
        yield from ()

    @abstractmethod
    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Any:
        """Start the fault on `nodes` and return a record of the actions.

        Raises FaultError, after undoing every action that cannot be undone without this record.
        """

    @property
    def patience_s(self) -> float:
        """For how many seconds the fault may wait for a message. The faults after it do not wait.

        0 if `verify` can answer at once.
        """
        return 0.0

    def await_message(self, cluster: Cluster, nodes: Sequence[int], *, within_s: float) -> bool:
        """Return whether it has met its first message; wait for that for at most `within_s`."""
        return True

    @abstractmethod
    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Any) -> Evidence:
        """Prove by observation that the fault holds; raise FaultError if it does not."""

    @abstractmethod
    def heal(self, cluster: Cluster, nodes: Sequence[int], done: Any) -> None:
        """End the fault. A second call changes nothing."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: Any) -> bool:
        """Whether everything that the fault touched works again, here: each target is in sync."""
        return all(cluster.metadata.in_sync(node) for node in nodes)


def _stored(parameters: str) -> dict[str, Any] | None:
    """Return a window's parameters; None if they are not a JSON object (a damaged run)."""
    try:
        known = json.loads(parameters)
    except ValueError:
        return None
    return known if isinstance(known, dict) else None
