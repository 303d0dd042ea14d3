"""Task definitions of Amazon ECS."""

from __future__ import annotations

from ackproof.own_config.containers import Containers, named_values
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Block, block, items, text


def read(source: Source) -> Part | None:
    """Read a task definition of ECS."""
    root = next(iter(source.documents), None)
    task = block(root, "taskDefinition") or root
    if not isinstance(task, Block) or "containerDefinitions" not in task:
        return None
    found = Containers(source)
    for container in items(task, "containerDefinitions"):
        name = str(text(container, "name") or source.name)
        found.container(
            name, text(container, "image"), named_values(container), container, count=None
        )
    part = found.part("ECS task")
    return None if part.empty else part


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
    reads="brokers and applications of task definitions",
    patterns=("*.json",),
    mentions="kafka",
    examples={"task.json": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
