"""Compares `ackproof advise restart`, and the common rule, with restarts of brokers.

`ci/lab/advise-truth restarts` calls it. The clusters and events are those of `advise_truth`. Before
the first event and after each one a running broker is stopped and started while records are sent.
An acked record is lost if the leader's log lacks it in the end.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import truth
from advise_truth import (
    SPEC,
    Drawn,
    by_acks,
    draw,
    happen,
    on_disks,
    partitions,
    send,
    settled,
)
from cluster_fork import copy_disks
from truth import judgements, options, stored

from ackproof.advise import live, rolling
from ackproof.advise.disks import read_disks
from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import TopicPartition

RESULTS = truth.RESULTS / "restart_truth.jsonl"
#: The pause between two records of a topic while a broker is restarted.
_EVERY_S = 0.005
#: The numbers of a restart's records begin at a multiple of this.
_NUMBERS = 1_000_000
#: Offset and number of records.
Records = Mapping[TopicPartition, set[tuple[int, int]]]


@contextlib.contextmanager
def sending(
    cluster: KafkaCluster, drawn: Drawn, first: int
) -> Iterator[dict[TopicPartition, set[tuple[int, int]]]]:
    """Send records to all topics; yield the acked ones, which are complete afterwards."""
    acked: defaultdict[TopicPartition, set[tuple[int, int]]] = defaultdict(set)
    ended = threading.Event()

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            place = message.topic(), message.partition()
            acked[place].add((message.offset(), int(message.value())))

    def produce() -> None:
        producers = by_acks(cluster, {"linger.ms": 0})
        number = first
        while not ended.wait(_EVERY_S):
            for (name, partition), topic in drawn.topics.items():
                with contextlib.suppress(BufferError):
                    producers[topic.acks].produce(
                        name, f"{number}", partition=partition, on_delivery=delivered
                    )
            for producer in producers.values():
                producer.poll(0)
            number += 1
        for producer in producers.values():
            producer.flush(10)
            producer.close()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield acked
    finally:
        ended.set()
        thread.join()


def on_leaders(cluster: KafkaCluster) -> Records:
    """Return the records in the logs of the leaders, while nothing is written."""
    leaders = {place: view.leader for place, view in partitions(cluster).items()}
    with tempfile.TemporaryDirectory() as folder:
        copy_disks(cluster, Path(folder), cluster.running_brokers())
        nodes = read_disks([Path(folder)])
        return {
            place: on_disks({leader: nodes[leader]}, place)
            for place, leader in leaders.items()
            if leader is not None
        }


def without_the_dead(cluster: KafkaCluster) -> None:
    """Wait until no leader has a broker in its ISR that does not run."""
    running = set(cluster.running_brokers())
    wait_for(
        lambda: [one for one in partitions(cluster).values() if one.leader is not None],
        lambda led: all(running.issuperset(one.isr) for one in led),
        within_s=60,
        failure=lambda led: ClusterError(f"the ISRs still have brokers that are down: {led}"),
    )


def restarted(
    cluster: KafkaCluster, drawn: Drawn, broker: int, before: Records, first: int
) -> list[dict[str, Any]]:
    """Restart a broker while records are sent; return its partitions that could be written before.

    before: the acked records that the leaders have.
    """
    running = set(cluster.running_brokers())
    least = {place: topic.least for place, topic in drawn.topics.items()}
    with sending(cluster, drawn, first) as acked:
        writable = [
            place
            for place, view in partitions(cluster).items()
            if view.leader is not None and len(view.isr) >= least[place]
        ]
        wait_for(
            lambda: [place for place in writable if not acked[place]],
            [].__eq__,
            within_s=60,
            failure=lambda left: ClusterError(f"nothing is acked of {left}"),
        )
        asked = live.ask(cluster.bootstrap_servers, {})
        cluster.nodes[broker].terminate()
        back = settled(cluster, running - {broker}, least)
        cluster.nodes[broker].start_again()
        settled(cluster, running, least)
    settled(cluster, running, least)
    after = on_leaders(cluster)
    rows = []
    for place, topic in drawn.topics.items():
        view = asked.partitions[place]
        if broker not in view.replicas or place not in writable:
            continue
        said = rolling.judged(asked, place, broker, kafka=drawn.kafka, acks=topic.acks)
        sent = before.get(place, set()) | acked[place]
        rows.append(
            {
                "topic": place[0],
                "replicas": view.replicas,
                "minimum": topic.minimum,
                "acks": topic.acks,
                "unclean": topic.unclean,
                "leader": view.leader,
                "isr": view.isr,
                "rule": said.rule,
                "may_lose": said.may_lose,
                "stops_writes": said.stops_writes,
                "acked": len(sent),
                "missing": len(sent - after.get(place, set())),
                "written": place in back,
            }
        )
    return rows


def judged(seed: int) -> list[dict[str, Any]]:
    """Draw a cluster, and restart a broker before and after each of its events."""
    drawn, chance = draw(seed), random.Random(-seed)  # noqa: S311
    image, client = images.ensure(drawn.kafka).reference, connect()
    lines: list[dict[str, Any]] = []
    acked: defaultdict[TopicPartition, set[tuple[int, int]]] = defaultdict(set)
    with booted(
        SPEC, client=client, image=image, run_id=f"restart-{seed}", kafka=drawn.kafka
    ) as cluster:
        cluster.create_topics({name: topic.spec() for (name, _), topic in drawn.topics.items()})
        for number, event in enumerate([None, *drawn.events]):
            happen(cluster, event)
            running = cluster.running_brokers()
            if len(running) < 2:
                continue
            without_the_dead(cluster)
            first = number * _NUMBERS
            for place, sent in send(cluster, drawn, first).items():
                acked[place] |= set(sent.items())
            present = on_leaders(cluster)
            before = {place: acked[place] & present[place] for place in present}
            broker = chance.choice(sorted(running))
            lines.append(
                {
                    "seed": seed,
                    "kafka": drawn.kafka,
                    "events": [f"{what} {which}" for what, which in drawn.events[:number]],
                    "broker": broker,
                    "partitions": restarted(cluster, drawn, broker, before, first + _NUMBERS // 2),
                }
            )
    return lines


def answer(row: Mapping[str, Any]) -> str:
    words = [
        "may lose" if row["may_lose"] else "",
        "stops writes" if row["stops_writes"] else "",
    ]
    return " and ".join(filter(None, words)) or "may be restarted"


def contradicts(row: Mapping[str, Any]) -> bool:
    """Whether a record was lost, or a write refused, that the answer excludes."""
    lost = row["missing"] and not row["may_lose"]
    return bool(lost or not (row["written"] or row["stops_writes"]))


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """Return what happened by the rule's and by the model's word, and how often each was wrong."""
    counts: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for row in (row for line in results for row in line["partitions"]):
        rule = "safe" if row["rule"] else "not safe"
        counts[row["acks"], rule, answer(row)].update(
            partitions=1,
            lost=int(bool(row["missing"])),
            refused=int(not row["written"]),
            harmed=int(bool(row["missing"] or not row["written"])),
            wrong=int(contradicts(row)),
        )
    columns = ("partitions", "lost", "refused")
    lines = ["| acks | ISR - 1 >= min.insync.replicas | advise restart | partitions "]
    lines[0] += "| lost records | not writable meanwhile |"
    lines.append("|---" * 6 + "|")
    for names, found in sorted(counts.items()):
        lines.append("| " + " | ".join([*names, *(str(found[one]) for one in columns)]) + " |")

    def total(rule: str) -> Counter[str]:
        return sum((found for names, found in counts.items() if names[1] == rule), Counter())

    safe, unsafe = total("safe"), total("not safe")
    return "\n".join(
        [
            *lines,
            f"The rule says safe of {safe['partitions']}, of which {safe['lost']} lost a record "
            f"and {safe['refused']} could not be written.",
            f"It says not safe of {unsafe['partitions']}, of which "
            f"{unsafe['partitions'] - unsafe['harmed']} lost nothing and could be written.",
            f"Advice was contradicted by {safe['wrong'] + unsafe['wrong']}.",
        ]
    )


def main() -> None:
    given = options(__doc__, results=RESULTS, clusters=12).parse_args()
    for seed, lines in judgements(given, judged):
        print(f"{seed}: {len(lines)} restarts", flush=True)
    results = stored(given.results)
    print(table(results))
    sys.exit(any(contradicts(row) for line in results for row in line["partitions"]))


if __name__ == "__main__":
    main()
