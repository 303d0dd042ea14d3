"""A consumer ends or loses its partitions between processing a record and committing its offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.effective import commits_itself, of_consumer
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.own_config.configuration import Client, Given
from ackproof_model import consumer_groups
from ackproof_model.configuration import Profile
from ackproof_model.consumer_groups import CommitMode, OffsetBudgets, OffsetModel
from ackproof_model.kafka_settings import ENABLE_AUTO_COMMIT, ENABLE_AUTO_OFFSET_STORE

#: The perturbation of the model, and the event in words.
_FAILURES = {
    Failure.CONSUMER_CRASH: ("crashes", "is killed"),
    Failure.REBALANCE: ("rebalances", "loses its partitions"),
}
#: Assumptions about the application, which no file states.
_OTHER_THREADS = {"processing": "in other threads than the poll's"}
_AFTER = {"commit": "after processing"}

KIND = Kind(
    title="a consumer ends between processing and committing",
    subject=Subject.CONSUMERS,
    texts={
        Effect.UNPROCESSED: Text(
            case="B26",
            text="automatic commit takes the place of a consumer that {event} past records that it "
            "has not processed yet",
            at_risk="records that were polled and not committed, or not processed",
        ),
        Effect.REPROCESSED: Text(
            case="B26",
            text="a consumer {event} after it has processed records and before it commits them, so "
            "that they are processed again",
            at_risk="records that were polled and not committed, or not processed",
        ),
    },
    failures=tuple(_FAILURES),
    removed_by={ENABLE_AUTO_COMMIT: "false", ENABLE_AUTO_OFFSET_STORE: "false"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    for consumer in setup.consumers:
        yield from _of_consumer(setup, consumer)


def _of_consumer(setup: Setup, consumer: Client) -> Iterator[Risk]:
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
    for failure, (kind, event) in _FAILURES.items():
        ways = [(_ways(version, mode, kind), when)]
        if mode == "auto-on-poll":
            every = _ways(version, mode, kind, asynchronous=True)
            skipped = {effect: trace for effect, trace in every.items() if effect not in ways[0][0]}
            ways.append((skipped, _OTHER_THREADS))
        for traces, assumed in ways:
            for effect, trace in traces.items():
                yield KIND.risk(
                    setup,
                    [failure],
                    effect,
                    trace=trace,
                    when=assumed,
                    decided_by=[*_remedies(consumer, effect, auto)] if on else (),
                    event=event,
                )


#: One representative Kafka version for each set of group rules.
_VERSIONS: dict[object, str] = {}


def _with_same_rules(version: str) -> str:
    profile = Profile.of(version)
    return _VERSIONS.setdefault((profile.group_fencing, profile.clients_truncate), version)


@cache
def _ways(
    version: str, mode: CommitMode, kind: str, *, asynchronous: bool = False
) -> Mapping[Effect, tuple[str, ...]]:
    """Return a shortest trace to each effect of one perturbation of this kind.

    With `latest` a group may also skip records before its first commit. That is the user's choice,
    so the search assumes `earliest`.
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
        Effect(anomaly): tuple(f"{label[0].upper()}{label[1:]}." for label, _ in trace)
        for anomaly, trace in searched.traces.items()
    }


def _remedies(consumer: Client, effect: Effect, auto: Given) -> Iterator[Decision]:
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
