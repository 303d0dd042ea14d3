"""Claims about groups of consumers, and about what applications do with what they read."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import Consumer

from integration.claims.subject import Observed, Subject, Trials
from integration.reading import records
from waiting import until

trials: Trials[Subject] = Trials()


def _assigned(subject: Subject, topics: list[str], strategy: str) -> list[list[str]]:
    """Return what two consumers of a new group are assigned, as sorted `topic-partition`."""
    group = f"{strategy}-{uuid4().hex[:8]}"
    members = [
        Consumer(
            {
                "bootstrap.servers": subject.cluster.bootstrap_servers,
                "group.id": group,
                "client.id": f"member-{number}",
                "partition.assignment.strategy": strategy,
            }
        )
        for number in (1, 2)
    ]
    for member in members:
        member.subscribe(topics)

    def shared() -> list[list[str]] | None:
        for member in members:
            member.poll(0.1)
        found = [
            sorted(f"{'ab'[topics.index(one.topic)]}{one.partition}" for one in each.assignment())
            for each in members
        ]
        return found if [len(one) for one in found] == [4, 4] else None

    assigned = until(shared, f"no {strategy} assignment of four partitions each")
    for member in members:
        member.close()
    return sorted(assigned or [])


@trials.of("N32")
def range_assigns_neighbours_and_round_robin_all_in_turn(subject: Subject) -> Observed:
    topics = sorted(subject.topic(partitions=4) for _ in range(2))
    ranges, turns = (_assigned(subject, topics, name) for name in ("range", "roundrobin"))
    return Observed(
        holds=ranges == [["a0", "a1", "b0", "b1"], ["a2", "a3", "b2", "b3"]]
        and turns == [["a0", "a2", "b0", "b2"], ["a1", "a3", "b1", "b3"]],
        evidence=f"topics a and b of four partitions, two members: range {ranges}, "
        f"round robin {turns}",
    )


@trials.of("N22")
def a_consumer_drops_duplicates_by_a_key(subject: Subject) -> Observed:
    topic = subject.topic()
    producer = subject.producer(acks="all")
    for _ in range(2):
        for order in range(10):
            producer.produce(topic, b"paid", key=f"order-{order}")
        assert producer.flush(60) == 0
    read = [record.key() for record in records(subject.cluster, topic)]
    processed = list(dict.fromkeys(read))
    return Observed(
        holds=(len(read), len(processed)) == (20, 10),
        evidence=f"ten orders written twice: {len(read)} records read, {len(processed)} keys "
        "processed",
    )
