"""The field `partitions` of disk faults: ``orders-0`` or a list; all partitions by default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from ackproof_faults.conditions.targets import TOPIC_PARTITION
from ackproof_faults.fault import Problem, Shape


def _parse(value: object) -> object:
    names = [value] if isinstance(value, str) else value
    for name in names if isinstance(names, list | tuple) else ():
        if not (isinstance(name, str) and re.fullmatch(TOPIC_PARTITION, name)):
            raise ValueError(f"{name!r} is not a partition ('orders-0', or a list of them)")
    return names


Partitions = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse, json_schema_input_type=str | list[str]),
    Field(
        default=(),
        description="the partitions whose files are damaged; by default all of the broker's",
        examples=["orders-0", ["orders-0", "orders-1"]],
    ),
]


def partition_problems(names: Sequence[str], shape: Shape) -> Iterator[Problem]:
    """Yield which of the named partitions the scenario does not have."""
    for name in names:
        topic, _, number = name.rpartition("-")
        if topic not in shape.topics:
            yield "partitions", f"there is no topic {topic!r} ({', '.join(sorted(shape.topics))})"
        elif int(number) >= shape.topics[topic]:
            yield (
                "partitions",
                f"{topic} has partitions 0 to {shape.topics[topic] - 1}, not {number}",
            )
