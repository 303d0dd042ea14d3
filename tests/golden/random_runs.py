"""Histories of runs: hand-made ones, random ones, and correct ones that are damaged."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ackproof_spark.tables import PROBE_PRODUCERS, Outcome, RecordState
from golden.random_histories import drawn
from spark_histories import OUTCOMES, End, FaultWindow, History, Record, Send

#: `ci/lab/histories` takes more.
HISTORIES = 400 if "ACKPROOF_HISTORIES" in os.environ else 200
SEED = 20260101

#: By name; the notation is `spark_histories`'s, with the known verdict.
CASES = {
    f"{file.stem}: {name}": case
    for file in sorted(Path(__file__).parent.glob("*.json"))
    for name, case in json.loads(file.read_text(encoding="utf-8")).items()
}

# Small numbers, so that names and offsets collide.
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


@cache
def random_histories() -> list[History]:
    """Draw all histories first: Spark takes as long for one as for all."""
    return drawn(_histories(), HISTORIES, seed_of_draws=SEED)


def damaged_history(draw: random.Random) -> History:  # noqa: PLR0912  one branch a damage
    """Return a correct history of some dozens of sends, with up to 6 changes."""
    partitions, producers = draw.randint(1, 3), draw.randint(1, 3)
    log: dict[int, list[tuple[int, int] | None]] = {p: [] for p in range(partitions)}
    sends: dict[tuple[int, int], Send] = {}
    behind = [0] * producers
    for _ in range(draw.randint(10, 90)):
        producer = draw.randrange(producers)
        sequence, behind[producer] = behind[producer], behind[producer] + 1
        partition = sequence % partitions
        if draw.random() < 0.05:
            log[partition].append(None)  # a marker: no record
        offset = len(log[partition])
        log[partition].append((producer, sequence))
        outcome = draw.choices(OUTCOMES, [0.94, 0.02, 0.03, 0.01])[0]
        placed = outcome is Outcome.ACKED and draw.random() > 0.02
        sends[producer, sequence] = Send(
            producer=producer,
            sequence=sequence,
            partition=partition,
            outcome=outcome,
            offset=offset if placed else None,
            sent=sequence,
            resolved=sequence + 0.5,
        )
    states: dict[tuple[int, int], RecordState] = {}
    for _ in range(draw.randint(0, 6)):
        partition = draw.randrange(partitions)
        names = log[partition]
        if not names:
            continue
        at, other = (draw.randrange(len(names)) for _ in range(2))
        match draw.randrange(8):
            case 0:
                names[at] = None
            case 1:
                names[at], names[other] = names[other], names[at]
            case 2:
                names[at] = names[other]
            case 3:
                names.append(names[at])
            case 4:
                names[at] = (draw.randrange(producers + 1), draw.choice([at, 10**6 + other]))
            case 5:
                states[partition, at] = draw.choice([RecordState.CORRUPT, RecordState.FOREIGN])
            case 6:
                del names[at:]
            case 7:
                name = names[at]
                if name is not None and name in sends and sends[name].offset is not None:
                    offset = draw.choice([other, len(names) + 3])
                    sends[name] = replace(sends[name], offset=offset)
    records = [
        Record(
            partition=partition,
            offset=offset,
            state=states.get((partition, offset), RecordState.INTACT),
            producer=name[0],
            sequence=name[1],
        )
        for partition, names in log.items()
        for offset, name in enumerate(names)
        if name is not None
    ]
    ends = [
        End(
            partition=partition,
            begin=0,
            end=len(names),
            reason=draw.choice([None, None, "not all was read"]),
        )
        for partition, names in log.items()
    ]
    history = History(sends=list(sends.values()), log=records, ends=ends)
    return history if draw.random() < 0.5 else _with_probe(history, producers, draw)


def _with_probe(history: History, producers: int, draw: random.Random) -> History:
    """Give the last producers numbers of the probe, and an unknown producer any number."""
    first = draw.randint(0, producers - 1)
    numbers = [*range(first), *range(PROBE_PRODUCERS, PROBE_PRODUCERS + producers - first)]
    numbers.append(draw.choice([7, PROBE_PRODUCERS + 7]))

    def renumbered(row: Any) -> Any:
        return replace(row, producer=numbers[row.producer])

    return replace(
        history, sends=list(map(renumbered, history.sends)), log=list(map(renumbered, history.log))
    )
