"""Compares advice about dead clusters with what happens: each alternative on a copy of its own.

`ci/lab/advise-truth` calls it. The topics of one cluster have settings, replicas and producers of
their own, so that each fork judges as many states as there are topics. Brokers are killed, stopped
and started while records are sent; then all nodes die, and one machine may lose power. Of an
alternative that keeps everything no acked record may be missing; offsets that are lost for certain
must be.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import truth
from cluster_fork import copy_disks, forked
from confluent_kafka import Producer
from truth import judgements, options, read_to_ends, stored

from ackproof.advise.alternatives import Alternative, alternatives
from ackproof.advise.dead_cluster import ClusterState, Settings, dead_cluster, dump_of
from ackproof.advise.disks import NodeDisks, read_disks
from ackproof.advise.records import read_records
from ackproof.cluster.admin import PartitionView
from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.containers import images
from ackproof.containers.commands import run_sidecar
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import CONTROLLER_ID, ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Ability, Elect, Offsets, Situation, Start
from ackproof_spark.forensics.segments import batches

RESULTS = truth.RESULTS / "advise_truth.jsonl"
VERSIONS = ("2.6.2", "3.9.2", "4.1.2", "4.4.0")
#: States of a cluster, each of a topic.
_TOPICS = 40
#: Alternatives that are carried out, each on a copy of the cluster.
_FORKS = 4
#: Records of each topic between two events.
_RECORDS = 60
_SESSION_S = 4  # ZooKeeper's least with a tick of 2 s
_BROKERS = (1, 2, 3)
_ALL = Offsets(0, 2**62)
SPEC = ClusterSpec(
    brokers=3,
    settings={
        "broker.session.timeout.ms": _SESSION_S * 1000,
        "broker.heartbeat.interval.ms": 500,
        "zookeeper.session.timeout.ms": _SESSION_S * 1000,
        "log.index.size.max.bytes": 65536,  # an index is preallocated, and copied
    },
)
#: The numbers of acked records by offset; an unclean election may have used an offset twice.
Acked = Mapping[TopicPartition, Mapping[int, set[int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with one partition, and the acks of its producer."""

    replicas: tuple[int, ...]
    minimum: int
    unclean: bool
    acks: Literal["1", "all"]

    @property
    def least(self) -> int:
        """How many members of the ISR a write by its producer needs."""
        return min(self.minimum, len(self.replicas)) if self.acks == "all" else 1

    def spec(self) -> TopicSpec:
        settings = {
            "min.insync.replicas": self.minimum,
            "unclean.leader.election.enable": self.unclean,
        }
        return TopicSpec.model_validate({"assignment": [list(self.replicas)], "settings": settings})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A cluster: its topics, what happens to brokers one after the other, and a loss of power."""

    kafka: str
    topics: Mapping[TopicPartition, Topic]
    events: tuple[tuple[str, int], ...]
    without_power: int | None


def draw(seed: int) -> Drawn:
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    up, events = set(_BROKERS), []
    for _ in range(chance.randint(1, 4)):
        down = set(_BROKERS) - up
        starts = bool(down) and (len(up) == 1 or chance.random() < 0.3)
        broker = chance.choice(sorted(down if starts else up))
        events.append(("start" if starts else chance.choice(["kill", "kill", "stop"]), broker))
        up ^= {broker}
    # A clean stop flushes the logs, so that a later loss of power takes nothing.
    flushed = {broker for broker in _BROKERS if ("stop", broker) in events and broker not in up}
    return Drawn(
        kafka=VERSIONS[seed % len(VERSIONS)],
        topics={(f"topic-{number}", 0): _topic(chance) for number in range(_TOPICS)},
        events=tuple(events),
        without_power=chance.choice([None, None, *sorted({*_BROKERS} - flushed)]),
    )


def _topic(chance: random.Random) -> Topic:
    replicas = tuple(chance.sample(_BROKERS, chance.choice([3, 3, 3, 2])))
    return Topic(
        replicas=replicas,
        minimum=chance.choice([1, 2]),
        unclean=chance.random() < 0.2,
        acks=chance.choice(["1", "all"]),
    )


def by_acks(cluster: KafkaCluster, settings: Mapping[str, int]) -> dict[str, Producer]:
    """Return a producer with acks=1 and one with acks=all."""
    common = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "delivery.timeout.ms": 3000,
        "log_level": 0,
        **settings,
    }
    return {acks: Producer({**common, "acks": acks}) for acks in ("1", "all")}


def send(cluster: KafkaCluster, drawn: Drawn, first: int) -> dict[TopicPartition, dict[int, int]]:
    """Send records while brokers may be down; return the numbers of the acked ones by offset."""
    acked: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            place = message.topic(), message.partition()
            acked[place][message.offset()] = int(message.value())

    producers = by_acks(cluster, {"batch.num.messages": 20})
    for number in range(first, first + _RECORDS):
        for (name, partition), topic in drawn.topics.items():
            producer = producers[topic.acks]
            producer.produce(name, f"{number}", partition=partition, on_delivery=delivered)
    for producer in producers.values():
        producer.flush(10)
        producer.close()
    return acked


def on_disks(nodes: Mapping[int, NodeDisks], place: TopicPartition) -> set[tuple[int, int]]:
    """Return offset and number of all records on the disks; earlier events may have lost others."""
    folders = [node.folders[place] for node in nodes.values() if place in node.folders]
    return {
        (record.offset, int(record.value or b"-1"))
        for folder in folders
        for record in read_records(folder, _ALL)
    }


def happen(cluster: KafkaCluster, event: tuple[str, int] | None) -> None:
    """Kill, stop or start a broker, and wait until the brokers' list agrees."""
    if event is None:
        return
    what, broker = event
    node = cluster.nodes[broker]
    {"kill": node.kill, "stop": node.terminate, "start": node.start_again}[what]()
    wait_for(
        lambda: set(cluster.admin.brokers()),
        set(cluster.running_brokers()).__eq__,
        within_s=60,
        failure=lambda _: ClusterError("the brokers' list did not change"),
    )


def broken(cluster: KafkaCluster, drawn: Drawn) -> Acked:
    """Let the events happen, and end all nodes; return the acked records."""
    acked: defaultdict[TopicPartition, defaultdict[int, set[int]]]
    acked = defaultdict(lambda: defaultdict(set))
    for number, event in enumerate([None, *drawn.events]):
        happen(cluster, event)
        for place, sent in send(cluster, drawn, number * _RECORDS).items():
            for offset, of_offset in sent.items():
                acked[place][offset].add(of_offset)
    for node in cluster.nodes.values():
        if node.exit_status() is None:
            node.kill()
    return acked


def cut(cluster: KafkaCluster, broker: int, disks: Path, chance: random.Random) -> None:
    """Cut each log's last segment at the start of a batch, as a loss of power does."""
    node = cluster.nodes[broker]
    commands = []
    for folder in sorted((disks / node.name / "data").glob("[a-z]*-0")):
        last = sorted(folder.glob("*.log"))[-1]
        with last.open("rb") as file:
            starts = [batch.position for batch in batches(file, size=last.stat().st_size)]
        size = chance.choice(starts or [0])
        commands.append(f"truncate -s {size} /volume/data/{folder.name}/{last.name}")
        with last.open("rb+") as file:
            file.truncate(size)
    run_sidecar(
        cluster.client,
        cluster.sidecar,
        "\n".join(commands),
        run_id=cluster.run_id,
        volumes={node.volume: {"bind": "/volume", "mode": "rw"}},
    )


def partitions(cluster: KafkaCluster) -> Mapping[TopicPartition, PartitionView]:
    return wait_for(
        cluster.admin.partitions,
        bool,
        within_s=60,
        failure=lambda _: ClusterError("no broker of the copy answers"),
    )


def settled(
    cluster: KafkaCluster, started: set[int], least: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Wait until each partition has its started replicas in sync, or no leader for a while.

    least: how many members of the ISR a write needs. Returns when each became writable.
    """
    leaderless: set[TopicPartition] = set()
    since = time.monotonic()
    writable: dict[TopicPartition, float] = {}

    def calm() -> bool:
        nonlocal leaderless, since
        views = partitions(cluster)
        without = {place for place, view in views.items() if view.leader not in started}
        if without != leaderless or set(cluster.admin.brokers()) != started:
            leaderless, since = without, time.monotonic()
        for place, view in views.items():
            if place in without or len(view.isr) < least[place]:
                writable.pop(place, None)
            else:
                writable.setdefault(place, time.monotonic())
        return all(
            time.monotonic() - since > 3 * _SESSION_S
            if place in without
            else set(view.isr) == started.intersection(view.replicas)
            for place, view in views.items()
        )

    wait_for(
        calm,
        bool,
        within_s=180,
        every_s=0.3,
        failure=lambda _: ClusterError(f"the copy did not settle: {cluster.admin.partitions()}"),
    )
    return writable


def elect(cluster: KafkaCluster, started: set[int]) -> None:
    """Request an unclean election of each partition that has no leader, and wait for leaders."""

    def leaderless() -> list[TopicPartition]:
        views = partitions(cluster).items()
        able = [(place, one) for place, one in views if started.intersection(one.replicas)]
        return [place for place, one in able if one.leader is None]

    without = leaderless()
    for place in without:
        cluster.interfaces.operations.elect([place], unclean=True)
    wait_for(
        leaderless,
        [].__eq__,
        within_s=60,
        failure=lambda left: ClusterError(f"no leader of {left} of {without} was elected"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A partition after the steps.

    missing: offsets of acked records that its log lacks. returned: after how many steps it could be
    written, and how many seconds after the last of these began; None if it cannot be.
    """

    leader: int | None
    missing: frozenset[int]
    returned: tuple[int, float] | None


def carried_out(
    original: KafkaCluster, drawn: Drawn, steps: Alternative, acked: Acked, run_id: str
) -> dict[TopicPartition, End]:
    """Carry out steps on a copy; return the end of each partition."""
    with forked(original, SPEC, run_id=run_id, start=[CONTROLLER_ID]) as fork:
        started: set[int] = set()
        returned: dict[TopicPartition, tuple[int, float]] = {}
        least = {place: topic.least for place, topic in drawn.topics.items()}
        for number, step in enumerate(steps.steps, 1):
            begun = time.monotonic()
            if isinstance(step, Start):
                with ThreadPoolExecutor(max_workers=len(step.brokers)) as pool:
                    list(pool.map(lambda broker: fork.nodes[broker].boot(), step.brokers))
                started |= set(step.brokers)
            elif not started:
                continue  # nobody answers a request for an election
            elif isinstance(step, Elect):
                elect(fork, started)
            writable = settled(fork, started, least)
            times = {place: (number, round(at - begun, 1)) for place, at in writable.items()}
            returned = times | {place: one for place, one in returned.items() if place in times}
        views = partitions(fork)
        led = [place for place in drawn.topics if views[place].leader is not None]
        for name, _ in led:  # a marker needs enough replicas in sync
            fork.interfaces.operations.override(name, "min.insync.replicas", "1")
        found = read(fork, led)
        return {
            place: End(
                leader=views[place].leader,
                missing=frozenset(
                    at
                    for at, numbers in acked[place].items()
                    if place in found and numbers != {found[place].get(at)}
                ),
                returned=returned.get(place),
            )
            for place in drawn.topics
        }


def read(
    cluster: KafkaCluster, places: Sequence[TopicPartition]
) -> dict[TopicPartition, dict[int, int]]:
    """Return the numbers of all records by offset. Raises ClusterError if one cannot be read."""
    found = read_to_ends(cluster, places)
    if left := set(places) - found.keys():
        raise ClusterError(f"the copy cannot be read: {left}")
    return found


def inside(offsets: Iterable[Offsets], at: int) -> bool:
    return any(one.first <= at <= one.last for one in offsets)


def compared(
    one: Alternative,
    place: TopicPartition,
    end: End,
    acked: Iterable[int],
) -> Any:
    """Return the comparison of a partition's outcome with what happened."""
    said = one.outcomes[place]
    risked = {at for at in acked if inside(said.may_lose, at)}
    certain = {at for at in acked if inside(said.loses, at)}
    back = one.writes_return(place)
    return {
        "steps": [str(step) for step in one.steps],
        "verdict": replace(one, outcomes={place: said}).verdict,
        "right": end.missing <= risked
        and end.leader in said.leaders
        and said.writes is not (Ability.NO if end.returned else Ability.YES)
        and (back.after is None or (end.returned is not None and end.returned[0] <= back.after))
        and (end.leader is None or certain <= end.missing),
        "exact": end.missing == risked,
        "at_risk": len(risked),
        "missing": len(end.missing),
        "leader": end.leader,
        "writes_after": back.after,
        "fenced_first": back.fenced_first,
        "returned": end.returned,
    }


def chosen(judged: Sequence[Alternative], chance: random.Random) -> list[Alternative]:
    """Return the best alternative, and some of the others whose outcomes differ."""
    different = {tuple(one.outcomes.values()): one for one in reversed(judged) if one.steps}
    best, *others = sorted(different.values(), key=lambda one: one.rank)
    return [best, *chance.sample(others, min(len(others), _FORKS - 1))]


def states_of(drawn: Drawn, state: ClusterState) -> dict[TopicPartition, tuple[Situation, ...]]:
    """Return the possible states, each topic with the acks of its producer."""
    if set(state.situations) != set(drawn.topics):
        raise ClusterError(f"not every topic can be judged: {state.unknown}")
    return {
        place: tuple(replace(one, acks=drawn.topics[place].acks) for one in possible)
        for place, possible in state.situations.items()
    }


def judged(seed: int, keep: Path | None = None) -> list[dict[str, Any]]:
    """Draw a cluster, and compare the advice for each of its topics with its copies.

    keep: a new folder for the copies of the disks.
    """
    drawn, chance = draw(seed), random.Random(-seed)  # noqa: S311
    image, client = images.ensure(drawn.kafka).reference, connect()
    run_id = f"truth-{seed}"
    with (
        tempfile.TemporaryDirectory() as folder,
        booted(SPEC, client=client, image=image, run_id=run_id, kafka=drawn.kafka) as cluster,
    ):
        cluster.create_topics({name: topic.spec() for (name, _), topic in drawn.topics.items()})
        sent = broken(cluster, drawn)
        disks = keep or Path(folder)
        copy_disks(cluster, disks)
        if drawn.without_power is not None:
            cut(cluster, drawn.without_power, disks, chance)
        nodes = read_disks([disks])
        acked: dict[TopicPartition, dict[int, set[int]]] = {}
        for place in drawn.topics:
            present = on_disks(nodes, place)
            numbers = {
                at: {number for number in numbers if (at, number) in present}
                for at, numbers in sent[place].items()
            }
            acked[place] = {at: left for at, left in numbers.items() if left}
        if keep:
            (keep / "acked.txt").write_text(repr(acked))
        settings = Settings(
            kafka=drawn.kafka,
            properties={},
            acks="all",
            power_lost=frozenset(one for one in [drawn.without_power] if one is not None),
        )
        dead = dead_cluster(nodes, dump_of(nodes, drawn.kafka), settings)
        states = states_of(drawn, dead)
        outcomes: dict[TopicPartition, list[Any]] = {place: [] for place in drawn.topics}
        for number, one in enumerate(chosen(alternatives(states), chance)):
            ends = carried_out(cluster, drawn, one, acked, f"{run_id}-{number}")
            for place, end in ends.items():
                answer = compared(one, place, end, acked[place])
                outcomes[place].append(answer)
    return [
        {
            "seed": seed,
            "topic": place[0],
            "kafka": drawn.kafka,
            "replicas": topic.replicas,
            "minimum": topic.minimum,
            "acks": topic.acks,
            "unclean": topic.unclean,
            "events": [f"{what} {broker}" for what, broker in drawn.events],
            "without_power": drawn.without_power,
            "acked": len(acked[place]),
            "alternatives": outcomes[place],
        }
        for place, topic in drawn.topics.items()
    ]


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """Return, by verdict, how many alternatives were carried out, right, and exact."""
    counts: dict[str, Counter[str]] = {}
    for one in (one for result in results for one in result["alternatives"]):
        of_verdict = counts.setdefault(one["verdict"], Counter())
        of_verdict.update(
            carried_out=1,
            right=one["right"],
            exact=one["exact"],
            lost_records=bool(one["missing"]),
        )
    columns = ("carried_out", "right", "exact", "lost_records")
    lines = ["| advice | " + " | ".join(one.replace("_", " ") for one in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for verdict, of_verdict in sorted(counts.items()):
        lines.append(f"| {verdict} | " + " | ".join(str(of_verdict[one]) for one in columns) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, results=RESULTS, clusters=1000)
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="a folder for the disks of each cluster")
    given = parser.parse_args()
    states, wrong = len(stored(given.results)), 0
    found = judgements(given, lambda seed: judged(seed, given.keep and given.keep / str(seed)))
    begun = time.monotonic()
    while states < given.states and (one := next(found, None)):
        seed, results = one
        states += len(results)
        outcomes = [(result["topic"], one) for result in results for one in result["alternatives"]]
        bad = [(topic, one) for topic, one in outcomes if not one["right"]]
        wrong += len(bad)
        took = f"{time.monotonic() - begun:.0f} s"
        print(f"{seed}: {len(outcomes)} outcomes in {took}, wrong: {bad}", flush=True)
        begun = time.monotonic()
    print(table(stored(given.results)))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
