"""Records that consumers skip or process twice: commits, lost offsets, added partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from ackproof.audit.answer import Decision, Effect, Failure, Risk
from ackproof.audit.effective import (
    OFFSETS,
    commits_itself,
    of_broker,
    of_consumer,
    of_internal,
    offsets_replicas,
)
from ackproof.audit.risk import decision, worded
from ackproof.audit.risks import losing
from ackproof.audit.setups import MINIMUM, UNCLEAN, Setup
from ackproof.audit.words import covers, phrase
from ackproof.own_config.configuration import Client, Given
from ackproof.scenario.librdkafka import EARLIEST
from ackproof_model import consumer_groups
from ackproof_model.configuration import Configuration, Profile
from ackproof_model.consumer_groups import CommitMode, OffsetBudgets, OffsetModel
from ackproof_model.kafka_settings import (
    AUTO_OFFSET_RESET,
    ENABLE_AUTO_COMMIT,
    ENABLE_AUTO_OFFSET_STORE,
)

_USUAL_REPLICAS = 3
_EXPIRY = "offsets.retention.minutes"
_A_WEEK = 7 * 24 * 60
_LAG = Failure.LAG
_FAILURES = {Failure.CONSUMER_CRASH: "crashes", Failure.REBALANCE: "rebalances"}

#: An assumption about the application, which no file states.
_OTHER_THREADS = {"processing": "in other threads than the poll's"}
_AFTER = {"commit": "after processing"}


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the risks of the consumers, and of lost offsets also where no consumer is known."""
    for consumer in setup.consumers:
        yield from _of_commits(setup, consumer)
        yield from _of_expired_offsets(setup, consumer)
        yield from _of_added_partitions(setup, consumer)
    yield from _of_lost_offsets(setup)


def _of_commits(setup: Setup, consumer: Client) -> Iterator[Risk]:
    auto = of_consumer(setup, consumer, ENABLE_AUTO_COMMIT)
    on = auto.value.lower() == "true"
    stored = of_consumer(setup, consumer, ENABLE_AUTO_OFFSET_STORE).value.lower()
    mode: CommitMode = "after"
    when: Mapping[str, str] = {} if commits_itself(consumer) else _AFTER
    if on and consumer.library == "java":
        mode, when = "auto-on-poll", {}
    elif on and stored == "true":
        mode, when = "auto", {}
    version = _with_same_rules(setup.partition.kafka_version)
    for failure, kind in _FAILURES.items():
        ways = [(_ways(version, mode, kind), when)]
        if mode == "auto-on-poll":
            found = _ways(version, mode, kind, asynchronous=True)
            skipped = {
                anomaly: trace for anomaly, trace in found.items() if anomaly not in ways[0][0]
            }
            ways.append((skipped, _OTHER_THREADS))
        for found, assumed in ways:
            for anomaly, trace in found.items():
                yield _of_commit(
                    setup,
                    consumer,
                    Effect(anomaly),
                    failure,
                    auto=auto,
                    trace=trace,
                    when=assumed,
                )


#: A version for each set of the rules that a group reads.
_VERSIONS: dict[object, str] = {}


def _with_same_rules(version: str) -> str:
    profile = Profile.of(version)
    return _VERSIONS.setdefault((profile.group_fencing, profile.clients_truncate), version)


@cache
def _ways(
    version: str, mode: CommitMode, kind: str, *, asynchronous: bool = False
) -> Mapping[str, tuple[str, ...]]:
    """Return a shortest trace to each effect of one perturbation of this kind.

    With `latest` a group may also skip records before its first commit. That is its choice of a
    beginning, so commits are searched with `earliest`.
    """
    model = OffsetModel(
        kafka_version=version,
        commit=mode,
        asynchronous=asynchronous,
        continues_after_refused_commit=True,
        reset="earliest",
        budgets=replace(OffsetBudgets(), **{kind: 1}),
    )
    searched = consumer_groups.search(model)
    return {
        anomaly: tuple(f"{label[0].upper()}{label[1:]}." for label, _ in trace)
        for anomaly, trace in searched.traces.items()
    }


def _of_commit(
    setup: Setup,
    consumer: Client,
    effect: Effect,
    failure: Failure,
    *,
    auto: Given,
    trace: tuple[str, ...],
    when: Mapping[str, str],
) -> Risk:
    automatic = auto.value.lower() == "true"
    told = worded(
        setup,
        effect,
        [failure],
        f"commit.{effect}",
        event="is killed" if failure is Failure.CONSUMER_CRASH else "loses its partitions",
        when=when,
        decided_by=list(_commit_remedies(consumer, effect, auto)) if automatic else (),
    )
    return replace(told, trace=trace)


def _commit_remedies(consumer: Client, effect: Effect, auto: Given) -> Iterator[Decision]:
    if effect is not Effect.UNPROCESSED:
        return
    repeats = "records are processed again after a failure"
    code = "" if commits_itself(consumer) else "the application commits after processing; "
    yield decision(ENABLE_AUTO_COMMIT, auto, "false", f"{code}{repeats}", of=consumer)
    if consumer.library == "librdkafka":
        given = consumer.settings.get(ENABLE_AUTO_OFFSET_STORE)
        yield decision(
            ENABLE_AUTO_OFFSET_STORE,
            given or Given("true", consumer.default),
            "false",
            f"the application stores offsets after processing; {repeats}",
            of=consumer,
        )


def _of_added_partitions(setup: Setup, consumer: Client) -> Iterator[Risk]:
    reset = of_consumer(setup, consumer, AUTO_OFFSET_RESET)
    if reset.value in EARLIEST or reset.value.startswith(("none", "error", "by_duration")):
        return
    yield worded(
        setup,
        Effect.UNPROCESSED,
        [Failure.PARTITIONS_ADDED],
        "added-partitions",
        reset=reset.value,
        decided_by=[
            decision(
                AUTO_OFFSET_RESET,
                reset,
                "earliest",
                "a group without offsets begins at the first record, and repeats what is retained",
                of=consumer,
            )
        ],
    )


def _of_expired_offsets(setup: Setup, consumer: Client) -> Iterator[Risk]:
    """Yield what a group does whose offsets expire while it is down; only for a stated time."""
    given = setup.own.broker.get(_EXPIRY)
    if given is None or not given.value.isdecimal() or int(given.value) >= _A_WEEK:
        return
    reset = of_consumer(setup, consumer, AUTO_OFFSET_RESET)
    effect, then = _without_offset(reset.value)
    yield worded(
        setup,
        effect,
        [Failure.CONSUMER_CRASH],
        "expired-offsets",
        minutes=given.value,
        reset=reset.value,
        then=then,
        when={"consumers down": f"for {given.value} minutes"},
        decided_by=[decision(_EXPIRY, given, _A_WEEK, "offsets of dead groups stay longer")],
    )


def _without_offset(reset: str) -> tuple[Effect, str]:
    """Return what a group does that finds no offset, in general and in words."""
    if reset in EARLIEST:
        return Effect.REPROCESSED, "repeat what is retained"
    if reset in ("none", "error"):
        return Effect.READS_STOP, "stop with an error until somebody sets their offsets"
    if reset.startswith("by_duration"):
        return Effect.UNPROCESSED, f"skip what they have not read and is older than {reset[12:]}"
    return Effect.UNPROCESSED, "skip what they have not read"


def _of_lost_offsets(setup: Setup) -> Iterator[Risk]:
    """Yield what groups repeat or skip after the offsets topic has lost their offsets.

    Of several failures only those count in which followers lag, and which take no record of the
    topic itself with acks=all. If no file states the version, two failures count for each, so that
    no version looks better than another.
    """
    for replicas, assumed in offsets_replicas(setup):
        if offsets := _offsets_partition(setup, replicas):
            yield from _of_offsets_partition(setup, offsets, replicas, assumed)


def _of_offsets_partition(
    setup: Setup, offsets: Configuration, replicas: Given, assumed: Mapping[str, str]
) -> Iterator[Risk]:
    topic = (
        setup.partition if setup.partition.acks == "all" else replace(setup.partition, acks="all")
    )
    known, lost = losing(setup, topic), losing(setup, offsets)
    unknown_version = setup.own.kafka is None
    sets = [
        failures
        for failures in lost
        if len(failures) == 1
        or (
            _LAG in failures
            and (
                (unknown_version and len(failures) == 2)
                or not any(covers(one, failures) for one in known)
            )
        )
    ]
    resets: dict[tuple[Effect, str], dict[str, str]] = {
        _without_offset(of_consumer(setup, one, AUTO_OFFSET_RESET).value): {}
        for one in setup.consumers
    }
    resets = resets or {
        _without_offset(one): {AUTO_OFFSET_RESET: one} for one in ("earliest", "latest")
    }
    for (effect, then), when in resets.items():
        for failures in sets:
            yield worded(
                setup,
                effect,
                failures,
                "lost-offsets",
                after=phrase(failures).capitalize(),
                then=then,
                when={**when, **assumed},
                decided_by=[_offsets_remedy(setup, replicas)],
            )


def _offsets_remedy(setup: Setup, replicas: Given) -> Decision:
    if int(replicas.value) < _USUAL_REPLICAS:
        cost = "needs three brokers; counts only before the first group commits"
        return decision(OFFSETS, replicas, _USUAL_REPLICAS, cost)
    cost = "of __consumer_offsets: groups cannot commit while only one replica is in sync"
    return decision(MINIMUM, _of_offsets_topic(setup, MINIMUM), 2, cost)


def _of_offsets_topic(setup: Setup, key: str) -> Given:
    return of_internal(setup, "__consumer_offsets", key) or of_broker(setup, key)


def _offsets_partition(setup: Setup, replicas: Given) -> Configuration | None:
    minimum = _of_offsets_topic(setup, MINIMUM)
    if not (replicas.value.isdecimal() and minimum.value.isdecimal() and int(replicas.value)):
        return None
    return replace(
        setup.partition,
        acks="all",
        replication_factor=int(replicas.value),
        min_insync_replicas=max(int(minimum.value), 1),
        unclean_leader_election=_of_offsets_topic(setup, UNCLEAN).value.lower() == "true",
        brokers=None,
    )
