"""Kafka's own tools in containers of brokers: the classes of each, and the bash that runs them.

The published image has Kafka's scripts in `/opt/kafka/bin`. An image that is built here has those
of `TOOLS`, which our texts name, in the same place.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The class path of brokers and tools.
CLASSPATH = "/opt/kafka/libs/*"

#: The classes of a tool by the name of its script. Tools have moved between packages; the newest
#: package comes first.
TOOLS: Mapping[str, tuple[str, ...]] = {
    "kafka-configs": ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-dump-log": ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "kafka-features": ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand"),
    "kafka-leader-election": (
        "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka.admin.LeaderElectionCommand",
    ),
    "kafka-metadata-quorum": (
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "kafka.admin.MetadataQuorumCommand",
    ),
    "kafka-reassign-partitions": (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "kafka-share-groups": ("org.apache.kafka.tools.consumer.group.ShareGroupCommand",),
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
    "kafka-transactions": ("org.apache.kafka.tools.TransactionsCommand",),
}

# Whether a class is in one of the jars. A JVM would take a second for each class.
_HAS = f'has() {{ grep -lsqF "${{1//.//}}.class" {CLASSPATH}.jar; }}'
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m"


def kafka_command(classes: tuple[str, ...], arguments: str) -> str:
    """Return a bash command that runs the first class that exists; `arguments` are bash, too."""
    *first, last = classes
    tries = "".join(f"if has {name}; then {_java(name, arguments)}; el" for name in first)
    return f"{_HAS}\n{tries}se {_java(last, arguments)}; fi" if first else _java(last, arguments)


def scripts() -> Mapping[str, str]:
    """Return the scripts of the tools by their file names."""
    shebang, arguments = "#!/bin/bash\n", '"$@"'
    return {
        f"{name}.sh": f"{shebang}{kafka_command(classes, arguments)}\n"
        for name, classes in TOOLS.items()
    }


def _java(name: str, arguments: str) -> str:
    return f"java {_JVM} -cp '{CLASSPATH}' {name} {arguments}"
