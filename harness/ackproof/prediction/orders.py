"""The orders in which the faults of a schedule with blocks may begin."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ackproof_faults import Fault
from ackproof_faults.schedule.blocks import ChoiceBlock, ParallelBlock, RandomBlock, SequenceBlock
from ackproof_model import Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A fault in one order of a schedule.

    after: indices of the faults of the block before it, which have recovered when it begins. loose:
    relative conditions do not count from the fault before it, so they may hold at any time.
    in_block: it is healed with its block at the latest.
    """

    fault: Fault
    after: tuple[int, ...] = ()
    loose: bool = False
    in_block: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order in which faults may begin; `after` and `loose` hold for the next step."""

    steps: tuple[Step, ...] = ()
    after: tuple[int, ...] = ()
    loose: bool = False

    def with_fault(self, fault: Fault) -> Order:
        step = Step(fault=fault, after=self.after, loose=self.loose)
        return Order(steps=(*self.steps, step))

    def with_block(self, whole: Order) -> Order:
        """Return `whole`, this order and a block, for which the next step waits."""
        before = len(self.steps)
        block = (replace(step, in_block=True) for step in whole.steps[before:])
        steps = (*self.steps, *block)
        return Order(steps=steps, after=tuple(range(before, len(steps))), loose=True)


def orders(steps: Sequence[Any], order: Order | None = None) -> Iterator[Order]:
    """Yield the orders of the steps, each as a continuation of `order`."""
    order = order or Order()
    if not steps:
        yield order
        return
    for extended in _extended(order, steps[0]):
        yield from orders(steps[1:], extended)


def _extended(order: Order, step: Any) -> Iterator[Order]:
    match step:
        case SequenceBlock():
            if step.probability < 1:
                yield order
            turns = [order]
            for _ in range(step.repeat or 1):
                turns = [
                    begun.with_block(whole)
                    for begun in turns
                    for whole in orders(step.sequence, begun)
                ]
            yield from turns
        case ChoiceBlock():
            for one in step.one_of:
                for whole in _extended(order, one):
                    yield order.with_block(whole)
        case ParallelBlock():
            for branches in itertools.permutations(step.parallel):
                whole = order
                for branch in branches:
                    whole = replace(whole.with_fault(branch), loose=True)
                yield order.with_block(whole)
        case _:
            yield order.with_fault(step)


def unsupported_blocks(steps: Sequence[Any]) -> Iterator[str]:
    """Yield the kinds of blocks that the search does not support."""
    for step in steps:
        match step:
            case RandomBlock():
                yield "random blocks"
            case SequenceBlock(probability=probability):
                counted = not (step.every or step.for_ is not None or step.until)
                if step.loops and (not counted or probability < 1):
                    yield "loops without a fixed number of turns"
                yield from unsupported_blocks(step.sequence)
            case ChoiceBlock():
                yield from unsupported_blocks(step.one_of)
            case ParallelBlock(parallel=branches):
                if not all(isinstance(branch, Fault) for branch in branches):
                    yield "parallel blocks of blocks"
                elif any(
                    isinstance(effect, Ends) and effect.clean
                    for branch in branches
                    for effect in branch.effects
                ):
                    yield "controlled shutdowns beside other faults"
