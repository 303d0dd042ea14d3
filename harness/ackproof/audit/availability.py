"""Which crashes stop a partition: no replica may lead, or too few replicas ack.

An interruption while a leader is elected is not a stop, because clients retry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ackproof.audit.answer import Effect
from ackproof.audit.failure import Failure, Failures, covers
from ackproof.audit.replication import Replication, rules_of
from ackproof.audit.setups import Setup, eras_of
from ackproof.own_config.configuration import Given
from ackproof.safer_settings import spelled
from ackproof_model.configuration import Configuration
from ackproof_model.replication.state import name
from ackproof_model.worst_case.minima import Question

_CRASH, _LAG = Failure.CRASH, Failure.LAG
NOTHING_AT_RISK = "nothing that was acked"
#: The largest replication factor that the model's operations were tried for.
MOST_REPLICAS = 5
#: Written by `ci/lab/audit_stops.py`.
FILE = Path(__file__).with_name("stops.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A smallest set of failures after which a partition stops, and the way to it.

    quorum: it stops because the controllers have no majority.
    """

    failures: Failures
    trace: tuple[str, ...]
    quorum: bool = False


#: The version whose rules stand for all: of its rules only eligible leader replicas, which a
#: question sets, decide which crashes stop a partition.
RULES = eras_of("")[-1].release


def question(
    partition: Configuration, effect: Effect, *, replicas: int = 0, minimum: int = 0
) -> Question:
    """Return the question about a partition. replicas, minimum: to use instead of its own."""
    replicas = replicas or partition.replication_factor
    return _asked(
        elr=partition.profile.elr,
        waits=partition.acks == "all" and effect is Effect.WRITES_STOP,
        replicas=replicas,
        minimum=min(minimum or partition.min_insync_replicas, replicas),
        unclean=partition.unclean_election,
    )


@cache
def _asked(*, elr: bool, waits: bool, replicas: int, minimum: int, unclean: bool) -> Question:
    return Question(
        kafka_version=RULES,
        elr=elr,
        acks="all" if waits else "1",
        replicas=replicas,
        min_insync_replicas=minimum,
        unclean=unclean,
    )


def stopping(one: Replication, effect: Effect) -> tuple[Failures, ...]:
    """Return the smallest sets of crashes, also after followers lagged, that stop a partition."""
    rules = rules_of(one)
    never = effect is Effect.WRITES_STOP and one.never_acked
    if never or one.replicas > MOST_REPLICAS:
        return ()
    asked = _asked(
        elr=rules.elr,
        waits=one.acks == "all" and effect is Effect.WRITES_STOP,
        replicas=one.replicas,
        minimum=rules.min_insync_replicas,
        unclean=rules.unclean,
    )
    return tuple(stop.failures for stop in smallest(asked))


def stop_verb(effect: Effect) -> str:
    return "writes stop" if effect is Effect.WRITES_STOP else "reads stop"


def stopped_when(failures: Failures) -> str:
    """Return after which failures a partition is stopped, as words after its verb."""
    down = failures.count(_CRASH)
    while_down = f"while {spelled(down)} replica{' is' if down == 1 else 's are'} down"
    parts = ["after the followers have left the ISR"] * (_LAG in failures)
    return " ".join((*parts, *[while_down] * bool(down)))


def stops(partition: Configuration, effect: Effect) -> tuple[Stop, ...]:
    """Return the smallest sets of crashes, also after followers lagged, that stop a partition."""
    if partition.replication_factor > MOST_REPLICAS:
        return ()
    return smallest(question(partition, effect))


@cache
def smallest(asked: Question) -> tuple[Stop, ...]:
    found: list[Stop] = []
    lags = (False, True) if asked.replicas > 1 else (False,)
    for crashes, lag in sorted(product(range(asked.replicas + 1), lags), key=sum):
        failures = (*[_LAG] * lag, *[_CRASH] * crashes)
        if failures and not any(covers(one.failures, failures) for one in found):
            trace = stopped_by(asked, crashes, lag=lag)
            if trace is not None:
                found.append(Stop(failures=failures, trace=trace))
    return tuple(found)


@cache
def stopped_by(asked: Question, crashes: int, *, lag: bool) -> tuple[str, ...] | None:
    """Return the way in which these operations stop a partition; None if they do not."""
    stop = _stored()[key_of(asked)].get(f"{'lag ' * lag}{crashes}")
    if stop is None:
        return None
    crashed, leader, isr = stop
    return (
        "A leads the partition; its other replicas are in sync.",
        *(["The followers of A leave the ISR."] * lag),
        *(f"{name(one)} crashes." for one in crashed),
        f"{f'{name(leader)} leads' if leader >= 0 else 'No replica leads'}; the ISR is "
        f"{{{', '.join(map(name, isr))}}}.",
    )


@cache
def _stored() -> Mapping[str, Mapping[str, tuple[list[int], int, list[int]]]]:
    """Return the stored search results, by question and set of failures.

    Each has the crashed brokers, and the resulting leader and ISR.
    """
    stored: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return stored


def key_of(question: Question) -> str:
    rules = f"{'elr ' * question.elr}{'unclean ' * question.unclean}acks={question.acks}"
    return f"{rules} {question.min_insync_replicas}/{question.replicas}"


def fewer_brokers(setup: Setup, replicas: Given) -> str:
    """Return the number of brokers if it is smaller than that of replicas, else ''."""
    brokers = setup.own.brokers
    known = brokers is not None and replicas.value.isdecimal()
    return str(brokers.value) if brokers and known and brokers.value < int(replicas.value) else ""
