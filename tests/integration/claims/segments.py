"""Claims about the files of a log, read by Kafka's own tool."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ackproof.containers import commands
from ackproof.containers.kafka_tools import TOOLS
from integration.claims.subject import SINCE_0_11, Observed, Subject, Trials

trials: Trials[Subject] = Trials()

_DUMP = TOOLS["kafka-dump-log"]


def _segments(subject: Subject, topic: str) -> list[str]:
    found = []
    for folder in subject.cluster.nodes[1].spec.directories:
        script = f"ls {folder}/{topic}-0/*.log 2>/dev/null || true"
        done = commands.run(subject.cluster.nodes[1].container, ["bash", "-c", script])
        found += done.stdout.decode().split()
    return sorted(found)


def _dump(subject: Subject, path: str) -> str:
    return subject.tool(_DUMP, "--files", path, "--deep-iteration")


@trials.of("N7")
def a_segment_begins_one_above_its_name(subject: Subject) -> Observed:
    topic = subject.topic(segment_bytes=1048576)
    producer = subject.producer(**{"linger.ms": 5, "compression.type": "none"})
    for _ in range(300):
        producer.produce(topic, bytes(8000))
        producer.poll(0)
    assert producer.flush(60) == 0
    path = _segments(subject, topic)[-1]
    name = int(PurePosixPath(path).stem)
    assert name > 0, "the log has one segment only"
    first = re.search(r"^(?:\| )?(?:baseO|o)ffset: ([0-9]+)", _dump(subject, path), re.M)
    assert first is not None
    return Observed(
        holds=int(first[1]) == name + 1,
        evidence=f"the segment {name} begins with offset {first[1]}",
    )


@trials.of("N8")
def records_have_format_0_or_1(subject: Subject) -> Observed:
    topic = subject.topic()
    assert subject.send(topic) == (0, 0)
    found = re.search(r"magic: ([0-9])", _dump(subject, _segments(subject, topic)[0]))
    assert found is not None
    return Observed(holds=found[1] in "01", evidence=f"DumpLogSegments: magic {found[1]}")


@trials.of("53", on=SINCE_0_11)
def sequences_count_from_0_for_each_producer_and_partition(subject: Subject) -> Observed:
    topics = [subject.topic(), subject.topic()]
    producer = subject.producer(**{"enable.idempotence": True})
    for _ in range(3):
        for topic in topics:
            producer.produce(topic, b"x")
        assert producer.flush(60) == 0
    seen = []
    for topic in topics:
        batches = re.findall(
            r"baseSequence: (-?[0-9]+)", _dump(subject, _segments(subject, topic)[0])
        )
        seen.append([int(one) for one in batches])
    return Observed(
        holds=seen == [[0, 1, 2]] * 2,
        evidence=f"DumpLogSegments: base sequences {seen[0]} and {seen[1]} of one producer in two "
        "partitions",
    )
