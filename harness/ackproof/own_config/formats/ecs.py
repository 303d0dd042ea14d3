"""Task definitions of Amazon ECS."""

from __future__ import annotations

from typing import Any

from ackproof.own_config.configuration import Holder
from ackproof.own_config.containers import Containers, named_values
from ackproof.own_config.parts import Format, Mount, Mounts, Part, Source
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
            name,
            text(container, "image"),
            named_values(container),
            container,
            count=None,
            mounts=_mounts(source, task, container) if isinstance(task, Block) else None,
        )
    part = found.part("ECS task")
    return None if part.empty else part


#: What makes a volume of a task outlive it.
_LASTS = frozenset(
    {
        "efsVolumeConfiguration",
        "dockerVolumeConfiguration",
        "fsxWindowsFileServerVolumeConfiguration",
        "configuredAtLaunch",
    }
)


def _mounts(source: Source, task: Block, container: Block) -> Mounts:
    """Return what a container of a task mounts; a volume without a place ends with the task."""
    volumes = {text(one, "name"): block(one) for one in items(task, "volumes")}
    found = []
    for entry in items(container, "mountPoints"):
        name, path = text(entry, "sourceVolume"), text(entry, "containerPath")
        if name is None or path is None:
            continue
        volume = volumes.get(name)
        lasts = volume is not None and (
            _LASTS & volume.keys() or text(volume, "host", "sourcePath") is not None
        )
        ends = Holder.VOLUME if lasts else Holder.POD
        found.append(
            Mount(
                path=str(path),
                holder=None if volume is None else ends,
                setting=f"volumes.{name}",
                value="a volume" if lasts else "a volume of the task",
                source=source.where(name),
                restart_keeps=bool(lasts),
            )
        )
    return Mounts(
        mounts=tuple(found),
        setting="mountPoints",
        source=source.at(container.line),
        restart_keeps=False,
    )


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
