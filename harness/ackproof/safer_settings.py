"""Which settings are safer for acked records, what they cost, and the sentence that says so.

An audit tries these changes on a user's configuration, the advice of a run on its scenario.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ackproof.kafka_versions import FEATURES_SINCE, WITH_ELR, numbers
from ackproof_model.kafka_settings import (
    ACKS,
    AUTO_LEADER_REBALANCE_ENABLE,
    BROKER_RACK,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    LOG_FLUSH_INTERVAL_MESSAGES,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

#: The name under which a change states another Kafka version.
KAFKA = "kafka.version"
#: The name under which a change states another number of brokers.
BROKERS = "brokers"
#: The name under which a change gives the logs a volume.
STORAGE = "storage"
USUAL_REPLICAS = 3
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def spelled(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new value of a setting. cost: its price in words.

    costly: the price is so high that other changes, and pairs of them, are proposed first.
    stops: `writes_stop` and `reads_stop`, if the price says that they stop after fewer failures.
    """

    setting: str
    value: str
    cost: str
    costly: bool = False
    stops: tuple[str, ...] = ()

    @property
    def name(self) -> tuple[str, str]:
        return self.setting, self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What protects the acked records of a partition.

    unclean: a replica outside the ISR may be elected. elr: eligible leader replicas are on. racks:
    the number of racks over which replicas are spread, 0 without racks. balanced: the preferred
    replica is elected by itself. flushes_every_record: a log is flushed before the ack. brokers:
    their number, None if it is not known. without_volume: no volume holds the logs.
    """

    kafka: str
    acks: str
    replicas: int
    min_insync_replicas: int
    unclean: bool
    zookeeper: bool
    elr: bool
    racks: int = 0
    balanced: bool = False
    flushes_every_record: bool = False
    brokers: int | None = None
    without_volume: bool = False


def candidates(now: Protection) -> Iterator[Change]:
    """Yield the changes that may make a partition safer, those that cost less first."""
    replicas, minimum = now.replicas, now.min_insync_replicas
    if now.without_volume:
        yield Change(
            setting=STORAGE,
            value="volume",
            cost="a disk for each broker, which outlives its pod or container",
        )
    if now.acks != "all":
        yield Change(
            setting=ACKS, value="all", cost="each send waits until all replicas in the ISR have it"
        )
    if now.unclean:
        yield Change(
            setting=UNCLEAN_LEADER_ELECTION_ENABLE,
            value="false",
            cost="while all replicas that were in the ISR are down, the partition can neither be "
            "written nor read",
            stops=("writes_stop", "reads_stop"),
        )
    if minimum < replicas - 1:
        yield _minimum(replicas, replicas - 1)
    if replicas < USUAL_REPLICAS and now.brokers is not None and now.brokers < USUAL_REPLICAS:
        yield more_brokers()
    elif replicas < USUAL_REPLICAS:
        yield Change(
            setting=REPLICATION_FACTOR,
            value=str(USUAL_REPLICAS),
            cost=f"{spelled(USUAL_REPLICAS)} copies of the data, on as many brokers",
        )
    if now.zookeeper or not now.elr:
        yield _elr(now)
    if now.racks and now.racks < replicas:
        yield Change(
            setting=BROKER_RACK, value=f"{spelled(replicas)} racks", cost="traffic between racks"
        )
    if not now.flushes_every_record:
        yield Change(
            setting=LOG_FLUSH_INTERVAL_MESSAGES,
            value="1",
            cost="every send waits for the disks: far fewer records per second",
            costly=True,
        )
    if replicas > 1 and minimum < replicas:
        yield _minimum(replicas, replicas)
    if now.balanced:
        yield Change(
            setting=AUTO_LEADER_REBALANCE_ENABLE,
            value="false",
            cost="leaders stay where restarts and failures have put them until somebody asks for "
            "an election",
            costly=True,
        )


def more_brokers() -> Change:
    """Return the change of a cluster that is too small for the usual number of replicas."""
    return Change(
        setting=BROKERS,
        value=str(USUAL_REPLICAS),
        cost=f"more machines; then {REPLICATION_FACTOR}={USUAL_REPLICAS} for each topic, also for "
        "__consumer_offsets",
    )


def _minimum(replicas: int, minimum: int) -> Change:
    away = replicas - minimum + 1
    number, of = spelled(away), spelled(replicas)
    return Change(
        setting=MIN_INSYNC_REPLICAS,
        value=str(minimum),
        cost=f"while {number} of {of} replicas {'is' if away == 1 else 'are'} away, writes with "
        "acks=all are refused",
        costly=away == 1,
        stops=("writes_stop",),
    )


#: What eligible leader replicas put at risk (B57).
_MOVES = "replicas may then be moved only while all are in sync (B57)"


def _elr(now: Protection) -> Change:
    """Return the change that switches eligible leader replicas on (KIP-966)."""
    command = f"kafka-features upgrade --feature {ELIGIBLE_LEADER_REPLICAS_VERSION}=1"
    if knows_elr(now.kafka):
        return Change(
            setting=ELIGIBLE_LEADER_REPLICAS_VERSION,
            value="1",
            cost=f"a cluster-wide feature: {command}; {_MOVES}",
        )
    upgrade = f"an upgrade{' from ZooKeeper to KRaft' if now.zookeeper else ''}"
    return Change(
        setting=KAFKA,
        value=WITH_ELR.label,
        cost=f"{upgrade}; switch it on afterwards: {command}; {_MOVES}",
    )


@cache
def knows_elr(kafka: str) -> bool:
    """Whether a version has the feature of eligible leader replicas."""
    return numbers(kafka) >= FEATURES_SINCE[ELIGIBLE_LEADER_REPLICAS_VERSION]
