"""Steps of a schedule: a fault, or a block of steps.

======================  =========================================================================
``sequence: [...]``     steps in order; with ``repeat``, ``every``, ``for``, ``until`` a loop,
                        with ``probability`` not in every run or turn
``parallel: [...]``     steps that begin together and do not wait for each other
``one_of: [...]``       one of the steps, drawn from the seed by ``weights``
``random: [...]``       a nemesis: faults drawn from the seed, one after another, for a time
======================  =========================================================================

A step after a block begins when everything in the block has recovered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    model_validator,
)
from pydantic_core import CoreSchema

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.trigger import Conditions, Trigger
from ackproof_faults.fault import Fault
from ackproof_faults.registry import registered

if TYPE_CHECKING:
    Step = Any  #: a `Fault` or a `Block`; `step_type` is the union at run time

#: Keys and indices that lead to a step in the file: (0,), or (1, 'parallel', 0).
Location = tuple[str | int, ...]

#: The most faults that a nemesis may draw, on average; all are drawn before the first begins.
_MOST_DRAWN = 10_000

Weights = list[Annotated[float, Field(gt=0, allow_inf_nan=False)]]


class Block(BaseModel):
    """A block of steps."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    key: ClassVar[str]

    @property
    def steps(self) -> Sequence[Step]:
        return list(getattr(self, self.key))


class SequenceBlock(Block):
    """Steps in order, once or in a loop.

    `repeat`, `for` and `until` limit when a turn begins; they do not interrupt a turn. With `every`
    alone a loop continues until the workload ends.
    """

    key: ClassVar[str] = "sequence"

    sequence: list[Step] = Field(min_length=1, description="steps that begin in this order")
    repeat: int | None = Field(default=None, ge=1, description="at most so many turns")
    every: Duration | None = Field(
        default=None, description="shortest time from the start of a turn to the start of the next"
    )
    for_: Duration | None = Field(
        default=None, alias="for", description="no new turn after so long"
    )
    until: Trigger = Field(
        default=Conditions(), description="no new turn once all of these conditions hold"
    )
    probability: float = Field(
        default=1.0, gt=0, le=1, description="probability of each turn, drawn from the seed"
    )

    @property
    def loops(self) -> bool:
        """Whether the sequence may have more than one turn."""
        bounds = (self.every, self.for_, self.until or None)
        return any(bound is not None for bound in bounds) or (self.repeat or 1) > 1

    @property
    def endless(self) -> bool:
        """Whether only the end of the workload ends the loop."""
        return self.loops and self.repeat is None and self.for_ is None and not self.until


class ParallelBlock(Block):
    """Steps that begin together and do not wait for each other."""

    key: ClassVar[str] = "parallel"

    parallel: list[Step] = Field(min_length=2, description="steps that begin together")


class ChoiceBlock(Block):
    """One of several steps, drawn from the seed."""

    key: ClassVar[str] = "one_of"

    one_of: list[Step] = Field(min_length=2, description="steps of which one is drawn")
    weights: Weights = Field(default_factory=list, description="1 for each unless given")

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _with_checked_weights(self, self.weights, self.one_of)


class RandomBlock(Block):
    """A nemesis: one fault after another, each drawn from the seed with its duration and pause."""

    key: ClassVar[str] = "random"

    random: list[Step] = Field(min_length=1, description="faults to draw from")
    weights: Weights = Field(default_factory=list, description="1 for each unless given")
    for_: Duration = Field(
        alias="for", gt=0, description="length of the time that is filled with faults and pauses"
    )
    lasting: tuple[Duration, Duration] = Field(
        default=(1.0, 10.0), description="shortest and longest time that a fault holds"
    )
    stable: tuple[Duration, Duration] = Field(
        default=(1.0, 10.0), description="shortest and longest pause before a fault"
    )
    fault_free: float = Field(
        default=0.0, ge=0, lt=1, description="share of the time that must be without fault"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for step in self.random:
            if not isinstance(step, Fault):
                raise ValueError(f"random draws from faults only, not from a {step.key!r} block")
            if step.or_after is not None or step.heal_after is not None:
                raise ValueError(
                    f"{step.name}: or_after and heal_after are drawn here (stable, lasting): "
                    "remove them"
                )
        for name in ("lasting", "stable"):
            shortest, longest = getattr(self, name)
            if shortest > longest:
                raise ValueError(
                    f"{name}: the first, {shortest:g}s, must not exceed the second, {longest:g}s"
                )
        pause = self.pause_before(self.lasting[0], self.stable[0])
        if self.lasting[0] + pause > self.for_:
            raise ValueError(
                f"for: {self.for_:g}s is too short for one pause and one fault "
                f"({pause:g}s + {self.lasting[0]:g}s at least)"
            )
        between = (sum(self.lasting) + sum(self.stable)) / 2
        if self.for_ > between * _MOST_DRAWN:
            raise ValueError(
                f"for: {self.for_:g}s has room for more than {_MOST_DRAWN:,} faults, of "
                f"{between:g}s each with its pause: shorten it, or lengthen lasting or stable"
            )
        return _with_checked_weights(self, self.weights, self.random)

    def pause_before(self, lasting: float, stable: float) -> float:
        """Return the pause before a fault: `stable`, or longer if the fault-free share needs it."""
        return max(stable, lasting * self.fault_free / (1 - self.fault_free))


B = TypeVar("B", bound=Block)

BLOCKS: dict[str, type[Block]] = {
    kind.key: kind for kind in (SequenceBlock, ParallelBlock, ChoiceBlock, RandomBlock)
}


def every_fault(steps: Sequence[Step]) -> Iterator[Fault]:
    for _, fault in located_faults(steps):
        yield fault


def located_faults(
    steps: Sequence[Step], location: Location = ()
) -> Iterator[tuple[Location, Fault]]:
    for index, step in enumerate(steps):
        if isinstance(step, Block):
            yield from located_faults(step.steps, (*location, index, step.key))
        else:
            yield (*location, index), step


def plain(steps: Sequence[Step]) -> bool:
    """Whether all steps are faults (no blocks) and no target is drawn."""
    return all(isinstance(step, Fault) and step.target.role != "any" for step in steps)


@cache
def step_type() -> Any:
    """Return the union of all steps for pydantic, tagged by `fault` or by the block's key."""
    kinds = [*registered().items(), *BLOCKS.items()]
    union: Any = Annotated[kinds[0][1], Tag(kinds[0][0])]
    for name, kind in kinds[1:]:
        union = union | Annotated[kind, Tag(name)]
    step = Annotated[union, Discriminator(_kind)]
    for block in BLOCKS.values():
        block.model_rebuild(force=True, _types_namespace={"Step": step})
    return step


class StepList:
    """Makes pydantic read a field as a list of steps."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(list[step_type()])  # type: ignore[misc]


def _kind(step: Any) -> str | None:
    """Return the tag of a step in `step_type`, None if it has none."""
    if isinstance(step, Block):
        return step.key
    if isinstance(step, Fault):
        return step.name
    if not isinstance(step, dict):
        return None
    if "fault" in step:
        return str(step["fault"])
    return next((key for key in BLOCKS if key in step), None)


def _with_checked_weights(block: B, weights: Weights, steps: Sequence[Step]) -> B:
    if weights and len(weights) != len(steps):
        raise ValueError(f"weights: {len(weights)} for {len(steps)} steps: give one for each")
    return block
