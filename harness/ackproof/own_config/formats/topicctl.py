"""Topics of topicctl: a mapping `meta`, and `spec` with `replicationFactor` and `settings`."""

from __future__ import annotations

from ackproof.own_config.configuration import Topic
from ackproof.own_config.listed_topics import joined
from ackproof.own_config.operators import count_of
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Block, block, text


def read(source: Source) -> Part | None:
    """Read the topics of all documents."""
    specs = [
        root
        for root in source.documents
        if isinstance(root, Block)
        and text(root, "meta", "name")
        and {"partitions", "replicationFactor"} & block(root, "spec").keys()
    ]
    topics = tuple(_topic(source, root) for root in specs)
    return Part(shape="topicctl", topics=topics) if topics else None


def _topic(source: Source, root: Block) -> Topic:
    spec = block(root, "spec")
    settings = {key: joined(value) for key, value in block(spec, "settings").items()}
    return Topic(
        name=str(text(root, "meta", "name")),
        partitions=count_of(source, spec, "partitions", 1),
        replication_factor=count_of(source, spec, "replicationFactor", 1),
        settings=source.settings(settings),
    )


_EXAMPLE = """\
meta:
  name: orders
  cluster: main
  environment: production
  region: eu
spec:
  partitions: 6
  replicationFactor: 3
  settings:
    min.insync.replicas: 2
"""
FORMAT = Format(
    name="topicctl",
    order=185,
    reads="topics",
    patterns=("*.yml", "*.yaml"),
    mentions="replicationFactor",
    examples={"topic.yaml": _EXAMPLE},
    read=read,
    notation="tree",
)
