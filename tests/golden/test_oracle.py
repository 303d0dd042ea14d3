"""Spark and the plain-Python oracle agree on random small histories, and on the hand-made ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ackproof_spark.anomaly import OF_CLIENTS, OF_REPLICAS, Anomaly
from ackproof_spark.tables import Outcome, RecordState
from golden.oracle import anomalies
from golden.test_anomalies import CASES
from spark_histories import (
    OUTCOMES,
    End,
    FaultWindow,
    History,
    Record,
    Send,
    anomalies_of,
    parse,
    show,
    write_run,
)

HISTORIES = 400
SEED = 20260101

# Small numbers on purpose: what matters here is that things collide.
_partitions = st.integers(0, 1)
_offsets = st.integers(0, 8)
_names = st.tuples(st.integers(1, 2), st.integers(0, 4))
_seconds = st.integers(0, 20)


@st.composite
def _sends(draw) -> list[Send]:
    sends = []
    few = draw(st.sampled_from([0, 6]))
    for producer, sequence in draw(st.lists(_names, unique=True, min_size=few, max_size=8)):
        outcome = draw(st.sampled_from([Outcome.ACKED] * 4 + [*OUTCOMES]))
        sent = draw(_seconds)
        late = draw(st.one_of(_seconds, st.none()) if outcome is Outcome.UNKNOWN else _seconds)
        sends.append(
            Send(
                producer=producer,
                sequence=sequence,
                partition=draw(_partitions),
                outcome=outcome,
                offset=draw(st.one_of(st.none(), _offsets)) if outcome is Outcome.ACKED else None,
                sent=sent,
                resolved=None if late is None else sent + late,
            )
        )
    return sends


@st.composite
def _log(draw, sends: list[Send]) -> list[Record]:
    few = draw(st.sampled_from([0, 6]))
    place = st.tuples(_partitions, _offsets)
    places = draw(st.lists(place, unique=True, min_size=few, max_size=12))
    log = []
    for partition, offset in sorted(places):
        state = draw(st.sampled_from([RecordState.INTACT] * 5 + [*RecordState]))
        sent_here = [(s.producer, s.sequence) for s in sends if s.partition == partition]
        some_name = st.sampled_from([*sent_here * 3, draw(_names)])
        intact = state is RecordState.INTACT
        name = draw(some_name if intact else some_name | st.none()) or (None, None)
        log.append(
            Record(
                partition=partition,
                offset=offset,
                state=state,
                producer=name[0],
                sequence=name[1],
                short=state is RecordState.CORRUPT and draw(st.booleans()),
            )
        )
    return log


@st.composite
def _ends(draw, log: list[Record]) -> list[End]:
    ends = []
    for partition in draw(st.lists(_partitions, unique=True, min_size=1)):
        offsets = [item.offset for item in log if item.partition == partition]
        begin = draw(st.integers(0, min(offsets, default=0)))
        ends.append(
            End(
                partition=partition,
                begin=begin,
                end=draw(st.integers(max(offsets, default=begin - 1) + 1, 10)),
                reason=draw(st.sampled_from([None, None, "not all was read"])),
            )
        )
    return ends


@st.composite
def _windows(draw) -> list[FaultWindow]:
    times = draw(st.lists(st.tuples(_seconds, st.none() | _seconds), max_size=3))
    return [
        FaultWindow(number=number, injected=at, healed=None if late is None else at + late)
        for number, (at, late) in enumerate(times)
    ]


@st.composite
def _histories(draw) -> History:
    sends = draw(_sends())
    log = draw(_log(sends))
    return History(sends=sends, log=log, ends=draw(_ends(log)), windows=draw(_windows()))


def _random_histories() -> list[History]:
    """Spark takes seconds for one history and for all of them: so they are drawn first."""
    drawn: list[History] = []

    @seed(SEED)
    @settings(
        max_examples=HISTORIES,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_histories())
    def draw(history):
        drawn.append(history)

    draw()
    return drawn


@pytest.mark.spark
def test_spark_and_the_oracle_agree_on_random_histories(spark, tmp_path):
    from ackproof_spark.checks.comparison import compare

    histories = {f"t{index}": history for index, history in enumerate(_random_histories())}
    write_run(tmp_path, histories)
    result = compare(spark, tmp_path)
    found: dict[str, list[str]] = {topic: [] for topic in histories}
    for row in anomalies_of(tmp_path):
        found[row["topic"]].append(show(row, found=False))
    for topic, history in histories.items():
        assert sorted(found[topic]) == anomalies(history), f"seed {SEED}: {history}"
    # The histories are worth something only if each anomaly occurs, and often.
    others = {*OF_REPLICAS, *OF_CLIENTS} - {Anomaly.ABORTED_READ}
    seen = {kind: count for kind, count in result.counts.items() if kind not in others}
    assert min(seen.values()) > HISTORIES / 10, seen


@pytest.mark.parametrize("name", CASES)
def test_oracle_agrees_with_the_hand_made_histories(name):
    expected = [line.partition(": ")[0] for line in CASES[name]["expected"]]
    assert anomalies(parse(CASES[name])) == sorted(expected)
