"""The metadata log of a real controller as steps of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ackproof.exploration.controller_steps import Down, controller_steps
from ackproof.exploration.shapes import PartitionShapes, Seen
from ackproof.judgement import trace_validation
from ackproof.observation import metadata_log
from ackproof_model.coverage import Pair, Shape

TESTS = Path(__file__).parents[3]
#: Leader 1 of orders-0 is killed, fenced, and starts again.
KILLED = TESTS / "unit" / "harness" / "observation" / "metadata_4.3.1.txt"
#: Brokers are killed, stopped and cut off one after the other; leaders are elected by request.
LONG = TESTS / "golden" / "traces" / "4.3.1.txt"

OF_1 = '"brokerId":1,'
ALL, WITHOUT_A = Shape(0, (0, 1, 2)), Shape(1, (1, 2))


def steps(dump: str, topic: str = "orders", number: int = 0, *, down: bool = False) -> list[Seen]:
    """Return what was seen of a partition. down: broker 1 was known to be dead."""
    replay = trace_validation.explain(dump, "4.3.1")
    assert replay.mismatch is None
    states = metadata_log.parse(dump).partitions
    rows = [asdict(one) for one in states if (one.topic, one.partition) == (topic, number)]
    always = Down(broker=1, since=datetime.min.replace(tzinfo=UTC), until=None)
    partition = PartitionShapes(f"{topic}-{number}", rows)
    entries = list(metadata_log.records(dump))
    return list(controller_steps(partition, entries, replay.events, [always] if down else []))


def certain(seen: Sequence[Seen]) -> set[Pair]:
    return {pair for one in seen if len(one) == 1 for pair in one}


def test_a_broker_that_dies_and_returns() -> None:
    seen = steps(KILLED.read_text(encoding="utf-8"), down=True)
    assert certain(seen) == {
        Pair("fence", ALL, WITHOUT_A),
        Pair("restart", WITHOUT_A, WITHOUT_A),
        Pair("unfence", WITHOUT_A, WITHOUT_A),
        Pair("expand", WITHOUT_A, WITHOUT_A),
        Pair("apply", WITHOUT_A, Shape(1, (0, 1, 2))),
    }


def test_whether_a_fenced_broker_was_dead_is_open_without_its_fault() -> None:
    first, *_ = steps(KILLED.read_text(encoding="utf-8"))
    assert first == {Pair("fence", ALL, WITHOUT_A), Pair("cut off", ALL, WITHOUT_A)}


def test_a_broker_that_returns_without_registering_was_cut_off() -> None:
    lines = KILLED.read_text(encoding="utf-8").splitlines(keepends=True)
    first, again = (line for line in lines if '"REGISTER_BROKER_RECORD"' in line and OF_1 in line)
    epoch, later = ('"brokerEpoch":14', '"brokerEpoch":63')
    assert epoch in first
    assert later in again
    dump = "".join(line for line in lines if line != again).replace(later, epoch)
    assert steps(dump)[0] == {Pair("cut off", ALL, WITHOUT_A)}


def test_a_changed_record_moves_a_certain_pair_to_none() -> None:
    dump = KILLED.read_text(encoding="utf-8")
    written = '{"partitionId":0,"topicId":"DpyuZLHsRISdLdZHEtpW7Q","isr":[1,2,3]}'
    assert dump.count(written) == 1
    pair = Pair("apply", WITHOUT_A, Shape(1, (0, 1, 2)))
    assert pair in certain(steps(dump))
    # The leader replaces a member, which the rules of a controller allow, but no step of the model.
    changed = steps(dump.replace(written, written.replace("[1,2,3]", "[1,2]")))
    assert not any(one.step == "apply" for pairs in changed for one in pairs)


def test_every_step_of_a_long_history_is_one_of_the_model() -> None:
    seen = steps(LONG.read_text(encoding="utf-8"))
    names = {pair.step for one in seen for pair in one}
    assert names == {
        *("apply", "expand", "shrink", "stop", "exit", "fence", "cut off"),
        *("restart", "unfence", "move leader"),
    }
    moved = Pair("move leader", Shape(2, (0, 1, 2)), ALL)
    assert moved in certain(seen)
