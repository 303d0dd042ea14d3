"""Histories of share groups, hand-made and random, in Spark and in a definition in plain Python.

Each history is a topic of one run, read by a group of its name. All records of a partition are in
the log, from offset 0 without a gap. The notation of a delivery, in the order of time::

    "0@3 by 1 #2: accept"               consumer 1 gets 0@3 with delivery count 2, and accepts it
    "0@3 by 1 #2: accept, refused"      the brokers refuse it; `unanswered`: it gets no answer;
                                        `unclear`: an error after which it may have been carried out
    "0@3 by 1 #2"                       it dies before it processes the record
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from ackproof_spark.anomaly import OF_SHARE_GROUPS, Anomaly
from spark_histories import _START, show, write_table

SEED = 20261129
#: `ci/lab/histories` raises their number.
HISTORIES = min(300, int(os.environ.get("ACKPROOF_HISTORIES", "20")))

#: A group that shares may process a record twice, too.
SHOWN = (*OF_SHARE_GROUPS, Anomaly.REPROCESSED, Anomaly.REPLAYED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """`kind` is None if the consumer died first. `answer`: taken, or as in the notation."""

    partition: int
    offset: int
    consumer: int
    count: int
    at: int
    kind: str | None = None
    answer: str = "taken"
    answered: float = 0.0

    @property
    def processed(self) -> bool:
        return self.kind == "accept"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """records: their number in each partition. lags: those that the group has left.

    letters: the records, partition and offset, that the group's dead-letter topic has; None if it
    has no such topic. keys: those that the producer takes in turn; None without keys. resets: of
    the group's offsets, as partition, new offset and time.
    """

    records: Sequence[int]
    lags: Sequence[int]
    deliveries: Sequence[Delivery]
    earliest: bool = True
    limit: int = 5
    added: Sequence[int] = ()
    letters: Sequence[tuple[int, int]] | None = None
    keys: int | None = None
    resets: Sequence[tuple[int, int, float]] = ()

    def epoch(self, one: Delivery, at: float) -> int:
        """Return after how many resets that ask for the delivery's record again a time is."""
        return sum(
            (partition == one.partition and offset <= one.offset and begun <= at)
            for partition, offset, begun in self.resets
        )


_LINE = re.compile(r"(\d+)@(\d+) by (\d+) #(\d+)(?:: (\w+)(?:, (refused|unanswered|unclear))?)?")


def parse(*lines: str, **more) -> History:
    found = []
    for at, line in enumerate(lines):
        partition, offset, consumer, count, kind, answer = _LINE.fullmatch(line).groups()
        found.append(
            Delivery(
                partition=int(partition),
                offset=int(offset),
                consumer=int(consumer),
                count=int(count),
                at=at,
                kind=kind,
                answer=answer or "taken",
                answered=at + 0.5,
            )
        )
    return History(deliveries=found, **{"records": [2], "lags": [0], **more})


AGAIN = "redelivered 0/0 on 0 at 0: delivery 2 to g, to consumer 1: consumer 0 had not released it"
TWICE = "reprocessed 0/0 on 0 at 0: processed by g, time 2 of 2"
CASES: Mapping[str, tuple[History, Sequence[str]]] = {
    "each record is accepted once": (parse("0@0 by 0 #1: accept", "0@1 by 1 #1: accept"), []),
    "the first was skipped": (
        parse("0@1 by 0 #1: accept"),
        ["undelivered 0/0 on 0 at 0: never delivered to g, which is at rest"],
    ),
    "a group at latest begins where it begins": (
        parse("0@1 by 0 #1: accept", earliest=False),
        [],
    ),
    "a group at latest gets an added partition from its begin": (
        parse("0@1 by 0 #1: accept", earliest=False, added=[0]),
        ["undelivered 0/0 on 0 at 0: never delivered to g, which is at rest"],
    ),
    "a group that goes on owes nothing yet": (
        parse("0@1 by 0 #1: release", lags=[2]),
        [],
    ),
    "released and accepted": (
        parse("0@0 by 0 #1: release", "0@1 by 0 #1: accept", "0@0 by 1 #2: accept"),
        [],
    ),
    "given up at the limit": (
        parse(
            "0@1 by 0 #1: accept",
            "0@0 by 0 #1: release",
            "0@0 by 0 #2: release",
            limit=2,
        ),
        [
            "archived-unprocessed 0/0 on 0 at 0: delivered to g 2 times, processed by no consumer, "
            "and given up"
        ],
    ),
    "rejected by the application": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: reject"),
        [],
    ),
    "rejected, and its dead letter is there": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: reject", letters=[(0, 0)]),
        [],
    ),
    "rejected, and the only dead letter is of another record": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: reject", letters=[(0, 1)]),
        [
            "dead-letter-missing 0/0 on 0 at 0: delivered to g 1 times and given up, and dlq.g "
            "has no letter of it"
        ],
    ),
    "an accept without an answer may have been carried out": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: accept, unanswered", letters=[]),
        [],
    ),
    "an accept that timed out may have been carried out": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: accept, unclear", letters=[]),
        [],
    ),
    "an accept came too late, and the record was given up": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: accept, refused", letters=[]),
        [
            "dead-letter-missing 0/0 on 0 at 0: delivered to g 1 times and given up, and dlq.g "
            "has no letter of it"
        ],
    ),
    "a later record of the same key is processed first": (
        parse(
            *("0@2 by 1 #1: accept", "0@1 by 0 #1: accept", "0@0 by 0 #1: accept"),
            records=[3],
            keys=2,
        ),
        ["unordered 0/0 on 0 at 0: processed by g after a later record of key 0"],
    ),
    "a key's order is not asked for": (
        parse("0@1 by 1 #1: accept", "0@0 by 0 #1: accept"),
        [],
    ),
    "delivered beyond the limit": (
        parse(
            "0@1 by 0 #1: accept",
            "0@0 by 0 #1: release",
            "0@0 by 0 #1: release",
            "0@0 by 1 #2: accept",
            limit=2,
        ),
        [
            "over-delivered 0/0 on 0 at 0: delivery 3 to g, to consumer 1: the broker counted 2, "
            "and the limit is 2"
        ],
    ),
    "the lock expires while consumer 0 works": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: accept, refused", "0@0 by 1 #2: accept"),
        [AGAIN, TWICE],
    ),
    "a consumer dies": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1", "0@0 by 1 #2: accept"),
        [AGAIN],
    ),
    "an accept without an answer promises nothing": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: accept, unanswered", "0@0 by 1 #2: accept"),
        [AGAIN, TWICE],
    ),
    "a record waits in its consumer until another one has accepted it": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #2: accept", "0@0 by 1 #1: accept"),
        [AGAIN, TWICE],
    ),
    "delivered although it was accepted, and counted anew": (
        parse(
            *("0@1 by 0 #1: accept", "0@0 by 1 #1: release", "0@0 by 0 #2: accept"),
            "0@0 by 1 #1: accept",
        ),
        [
            "delivered-after-accept 0/0 on 0 at 0: delivery 3 to g, to consumer 1, after consumer "
            "0 had accepted it",
            TWICE,
        ],
    ),
    "delivered although it was accepted": (
        parse("0@1 by 0 #1: accept", "0@0 by 0 #1: accept", "0@0 by 1 #2: accept"),
        [
            "delivered-after-accept 0/0 on 0 at 0: delivery 2 to g, to consumer 1, after consumer "
            "0 had accepted it",
            TWICE,
        ],
    ),
    "accepted, and replayed after a reset": (
        parse(*["0@0 by 0 #1: accept", "0@1 by 0 #1: accept"] * 2, resets=[(0, 0, 1.75)]),
        [
            f"replayed 0/{offset} on 0 at {offset}: processed again by g: an administrator had "
            "reset its offsets"
            for offset in (0, 1)
        ],
    ),
    "replayed, and then delivered although it was accepted": (
        parse(
            *["0@0 by 0 #1: accept", "0@1 by 0 #1: accept"],
            *["0@1 by 0 #1: accept", "0@1 by 1 #2: accept"],
            resets=[(0, 1, 1.75)],
        ),
        [
            "replayed 0/1 on 0 at 1: processed again by g: an administrator had reset its offsets",
            "delivered-after-accept 0/1 on 0 at 1: delivery 2 to g, to consumer 1, after consumer "
            "0 had accepted it",
            "reprocessed 0/1 on 0 at 1: processed by g, time 2 of 2",
        ],
    ),
    "deliveries begin anew after a reset": (
        parse(
            *["0@1 by 0 #1: accept", "0@0 by 0 #1: release", "0@0 by 0 #2: release"],
            *["0@0 by 0 #1: release", "0@0 by 0 #2: accept"],
            limit=2,
            resets=[(0, 0, 2.75)],
        ),
        [],
    ),
    "a reset passes over a record": (
        parse("0@0 by 0 #1: accept", resets=[(0, 2, 0.75)]),
        [
            "undelivered 0/1 on 0 at 1: never delivered to g, which is at rest: an administrator "
            "had changed its offset from none to 2"
        ],
    ),
}


def defined(history: History) -> list[str]:
    """Return the anomalies of a history, as `spark_histories.show` writes them without `found`."""
    found = []

    def report(anomaly: Anomaly, partition: int, offset: int) -> None:
        found.append(f"{anomaly} 0/{offset} on {partition} at {offset}")

    for partition, records in enumerate(history.records):
        rest = history.lags[partition] == 0
        got = [one for one in history.deliveries if one.partition == partition]
        begin = min((one.offset for one in got), default=records)
        if history.earliest or partition in history.added:
            begin = 0
        for offset in unordered(history, got):
            report(Anomaly.UNORDERED, partition, offset)
        for offset in range(records):
            own = sorted((one for one in got if one.offset == offset), key=lambda one: one.at)
            taken = [one for one in own if one.answer == "taken"]
            if rest and not own and offset >= begin:
                report(Anomaly.UNDELIVERED, partition, offset)
            idle = not any(one.processed or one.kind == "reject" for one in own)
            if rest and own and idle:
                report(Anomaly.ARCHIVED_UNPROCESSED, partition, offset)
            lasting = [one for one in own if one.kind == "accept" and one.answer != "refused"]
            at = (partition, offset)
            letters = [at] if history.letters is None else history.letters
            if rest and own and not lasting and at not in letters:
                report(Anomaly.DEAD_LETTER_MISSING, partition, offset)
            for anomaly in _again(history, own, taken):
                report(anomaly, partition, offset)
    return sorted(found)


def _epochs(history: History, own: Sequence[Delivery]) -> dict[int, list[Delivery]]:
    """Return the deliveries of a record by the number of resets before them."""
    epochs: dict[int, list[Delivery]] = defaultdict(list)
    for one in own:
        epochs[history.epoch(one, one.at)].append(one)
    return epochs


def _again(
    history: History, own: Sequence[Delivery], taken: Sequence[Delivery]
) -> Iterator[Anomaly]:
    """Yield the anomalies of a record by its deliveries since each reset."""
    processed = [one for one in own if one.processed]
    yield from [Anomaly.REPLAYED] * (len(_epochs(history, processed)) - 1)
    for epoch, since in _epochs(history, own).items():
        yield from [Anomaly.OVER_DELIVERED for _ in since[history.limit :]]
        yield from [Anomaly.REPROCESSED for one in since if one.processed][1:]
        accepts = [
            (one.answered, one.count)
            for one in taken
            if one.kind == "accept" and history.epoch(one, one.answered) == epoch
        ]
        accepted_at, count = min(accepts, default=(math.inf, 0))
        for number, one in enumerate(since):
            before = since[number - 1]
            # It waited in its consumer if no other delivery had that count.
            waited = one.count < count and one.count not in {each.count for each in since[:number]}
            if one.at > accepted_at and not waited:
                yield Anomaly.DELIVERED_AFTER_ACCEPT
            elif number > 0 and not (before.kind == "release" and before in taken):
                yield Anomaly.REDELIVERED


def unordered(history: History, got: Sequence[Delivery]) -> list[int]:
    """Return the offsets that were first processed after a later one of the same key."""
    first: dict[int, int] = {}
    for one in sorted(got, key=lambda one: one.at):
        if one.processed and history.keys is not None:
            first.setdefault(one.offset, one.at)
    return [
        offset
        for offset, at in first.items()
        if any(
            other > offset and (other - offset) % (history.keys or 1) == 0 and first[other] < at
            for other in first
        )
    ]


def drawn(draw: random.Random) -> History:
    """Return a history in which anything may happen."""
    records = [draw.randint(1, 5) for _ in range(draw.randint(1, 3))]
    deliveries = []
    for at in range(draw.randint(0, 3 * sum(records))):
        partition = draw.randrange(len(records))
        kind = draw.choice([*["accept"] * 4, "release", "release", "reject", "renew", None])
        deliveries.append(
            Delivery(
                partition=partition,
                offset=draw.randrange(records[partition]),
                consumer=draw.randrange(3),
                count=draw.randint(1, 6),
                at=at,
                kind=kind,
                answer=draw.choice(["taken", "taken", "refused", "unanswered", "unclear"]),
                answered=at + draw.choice([0.5, 4.5]),
            )
        )
    return History(
        records=records,
        lags=[draw.choice([0, 0, 0, 1]) for _ in records],
        deliveries=deliveries,
        earliest=draw.random() < 0.5,
        limit=draw.randint(1, 3),
        added=[number for number in range(len(records)) if draw.random() < 0.3],
        letters=draw.choice(
            [
                None,
                [
                    (partition, offset)
                    for partition, count in enumerate(records)
                    for offset in range(count)
                    if draw.random() < 0.3
                ],
            ]
        ),
        keys=draw.choice([None, 1, 1, 2]),
        resets=[
            (number, draw.choice([0, 0, 1, count]), draw.randint(0, len(deliveries)) + 0.25)
            for number, count in enumerate(records)
            if draw.random() < 0.7
        ],
    )


_ERRORS = {"refused": "INVALID_RECORD_STATE", "unclear": "REQUEST_TIMED_OUT"}


def write_run(
    run_dir: Path, histories: Mapping[str, History], *, application: bool = False
) -> None:
    """Write a run in which each history is a topic, and the group of the same name reads it.

    application: an application sent the records, with keys by which deliveries name them.
    """
    rows = defaultdict(list)
    rows["fault_windows"] = []
    rows["dead_letters"] = []
    for window, (topic, history) in enumerate(histories.items()):
        for partition, records in enumerate(history.records):
            place = {"topic": topic, "partition": partition}
            names = [{**place, "producer": 0, "sequence": n, "offset": n} for n in range(records)]
            rows["ledger"] += [{**name, "outcome": "acked"} for name in names]
            rows["final_log"] += [{**name, "state": "intact"} for name in names]
            rows["partition_ends"].append({**place, "end_offset": records, "complete": True})
            lag = history.lags[partition]
            rows["share_groups"].append(
                {
                    **place,
                    "group": topic,
                    "lag": lag,
                    "start_offset": records,
                    "earliest": history.earliest,
                    "delivery_limit": history.limit,
                    "dead_letters": None if history.letters is None else f"dlq.{topic}",
                    "keys": history.keys,
                }
            )
        for partition, offset in history.letters or ():
            letter = {"topic": topic, "partition": partition, "offset": offset}
            rows["dead_letters"].append({**letter, "group": topic, "written_at": _START})
        if history.added:
            facts = f'{{"added": {{"{topic}": {list(history.added)}}}}}'
            injected = {"injected_at": _START, "verified": True, "facts": facts}
            rows["fault_windows"].append({"window": window, "fault": "add_partitions", **injected})
        for number, (partition, offset, at) in enumerate(history.resets):
            offsets = {str(partition): [None, offset]}
            facts = json.dumps({"reset": {"group": topic, "topic": topic, "offsets": offsets}})
            times = {"injected_at": _START, "verified_at": _at(at), "verified": True}
            named = {"window": 1000 * (window + 1) + number, "fault": "reset_offsets"}
            rows["fault_windows"].append({**named, **times, "facts": facts})
        for number, one in enumerate(history.deliveries):
            record = {"topic": topic, "partition": one.partition, "offset": one.offset}
            record |= {"producer": 0, "sequence": one.offset}
            # A consumer numbers its polls; those of another history are of another consumer.
            poll = {"group": topic, "consumer": one.consumer, "poll": 1000 * window + number}
            times = {"read_at": _at(one.at), "delivery_count": one.count}
            rows["acquisitions"].append({**record, **poll, **times})
            if one.processed:
                rows["effects"].append({**record, **poll, "processed_at": _at(one.at)})
            if one.kind is not None:
                answered = None if one.answer == "unanswered" else _at(one.answered)
                error = _ERRORS.get(one.answer)
                answer = {"kind": one.kind, "answered_at": answered, "error": error}
                rows["acknowledgements"].append({**record, **poll, **answer})
    if application:
        numbers = {row["sequence"] for row in rows["ledger"]}
        keys = {number: hashlib.sha256(b"order-%d" % number).hexdigest() for number in numbers}
        rows["identities"] = [
            {"producer": 0, "sequence": number, "kind": "key", "identity": keys[number]}
            for number in numbers
        ]
        rows["read_identities"] = [
            {**{name: row[name] for name in ("consumer", "group", "poll")}, "key": keys[of_record]}
            for row in rows["acquisitions"]
            for of_record in [row["sequence"]]
        ]
        for table in ("acquisitions", "acknowledgements", "effects"):
            rows[table] = [row | {"producer": None, "sequence": None} for row in rows[table]]
    for table, of_table in rows.items():
        write_table(run_dir, table, of_table)


def _at(seconds: float):
    return _START + timedelta(seconds=seconds)


@pytest.mark.spark
@pytest.mark.parametrize(
    "application",
    [
        pytest.param(False, id="ackproof's producers"),
        pytest.param(True, id="an application", marks=pytest.mark.slow),
    ],
)
def test_spark_agrees_with_known_histories_and_with_the_definition_on_random_ones(
    application, spark, tmp_path
):
    from ackproof_spark.checks.comparison import compare
    from spark_histories import anomalies_of

    draw = random.Random(SEED)
    known = {f"case{index}": case for index, case in enumerate(CASES.values())}
    random_ones = {f"random{index}": drawn(draw) for index in range(HISTORIES)}
    histories = {topic: case[0] for topic, case in known.items()} | random_ones
    write_run(tmp_path, histories, application=application)
    compare(spark, tmp_path)
    by_topic = defaultdict(list)
    for row in anomalies_of(tmp_path):
        if row["anomaly"] in SHOWN:
            by_topic[row["topic"]].append({**row, "window": None})
    shown = {
        topic: sorted(show(row).replace(topic, "g") for row in by_topic[topic]) for topic in known
    }
    assert shown == {topic: sorted(case[1]) for topic, case in known.items()}
    for topic, history in random_ones.items():
        rows = sorted(show(row, found=False) for row in by_topic[topic])
        assert rows == defined(history), f"seed {SEED}, {topic}: {history}"
    kinds = Counter(row["anomaly"] for topic in random_ones for row in by_topic[topic])
    assert min(kinds[anomaly] for anomaly in SHOWN) > HISTORIES / 8, kinds


@pytest.mark.parametrize("name", CASES)
def test_the_definition_agrees_with_the_hand_made_histories(name):
    history, expected = CASES[name]
    assert defined(history) == sorted(line.partition(": ")[0] for line in expected)
