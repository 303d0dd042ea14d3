"""Task definitions of Amazon ECS."""

from __future__ import annotations

from typing import Any

from ackproof.own_config.containers import Containers, named_values
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Block, block, items, text


def read(source: Source) -> Part | None:
    """Read a task definition of ECS."""
    root = next(iter(source.documents), None)
    task = block(root, "taskDefinition") or root
    listed = _listed(task)
    if listed is None:
        return None
    found = Containers(source)
    for container in listed:
        name = str(text(container, "name") or source.name)
        found.container(
            name, text(container, "image"), named_values(container), container, count=None
        )
    part = found.part("ECS task")
    return None if part.empty else part


def _listed(task: object) -> list[Any] | None:
    """Return the containers of a task, or those of a bare list, as Terraform takes it."""
    if isinstance(task, list):
        bare = all({"name", "image"} <= block(one).keys() for one in task)
        return task if task and bare else None
    defined = isinstance(task, Block) and "containerDefinitions" in task
    return items(task, "containerDefinitions") if defined else None


_EXAMPLE = """\
{
  "containerDefinitions": [
    {"name": "orders", "environment": [{"name": "SPRING_KAFKA_PRODUCER_ACKS", "value": "1"}]}
  ]
}
"""
FORMAT = Format(
    name="ECS tasks",
    order=90,
    reads="brokers and applications of task definitions, and of lists of containers",
    patterns=("*.json",),
    mentions="kafka",
    examples={"task.json": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
