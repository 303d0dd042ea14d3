"""Metadata logs of real controllers: the model explains them, and refutes changed ones.

`tests/integration/test_model_trace.py` made `traces/<version>.txt` (ACKPROOF_KEEP_TRACES=folder);
records without content, and endpoints, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ackproof.judgement import trace_validation
from ackproof.kafka_versions import numbers
from ackproof.observation import metadata_log
from ackproof_model.kafka.partition_change import ControllerRules
from ackproof_model.validation.controller_state import MetadataRecord
from ackproof_model.validation.metadata_replay import replay
from ackproof_spark.forensics.terms import Election, terms

TRACES = sorted((Path(__file__).parent / "traces").glob("*.txt"))

#: Changes by requests that are not in the log: other requests are possible.
FREE = (
    "leader shrinks",
    "leader expands",
    "leader changes",
    "leader has recovered",
    "preferred election",
    "reassignment",
    "directory assigned",
)


def wrong(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield changes of a record, with their names; None removes it."""
    for field in ("leader", "isr", "eligibleLeaderReplicas", "lastKnownElr", "leaderRecoveryState"):
        if field in data:
            yield f"no {field}", {key: value for key, value in data.items() if key != field}
    for leader in {-1, 1, 2, 3} - {data.get("leader")}:
        yield "leader", data | {"leader": leader}
    if data.get("isr"):
        yield "isr", data | {"isr": data["isr"][:-1]}
    if stranger := {1, 2, 3} - set(data.get("isr", (1, 2, 3))):
        yield "isr", data | {"isr": [*data["isr"], min(stranger)]}
    elr = data.get("eligibleLeaderReplicas")
    yield "eligibleLeaderReplicas", data | {"eligibleLeaderReplicas": elr[1:] if elr else [3]}
    yield "nothing", None


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_model_explains_a_real_controllers_log(path: Path) -> None:
    found = trace_validation.explain(path.read_text(encoding="utf-8"), path.stem)
    assert found.mismatch is None, str(found.mismatch)
    assert found.explained == found.total > 50
    assert len(found.coverage) > 12


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_elections_are_named_as_the_controller_recorded_them(path: Path) -> None:
    """An election by which replicas may lose records starts a recovery (KIP-704)."""
    dump = path.read_text(encoding="utf-8")
    elected = {
        (one.offset, one.data["topicId"], one.data["partitionId"])
        for one in metadata_log.records(dump)
        if one.kind == "PARTITION_CHANGE_RECORD" and one.data.get("leaderRecoveryState") == 1
    }
    states = [asdict(state) for state in metadata_log.parse(dump).partitions]
    at = {state["at"]: state["metadata_offset"] for state in states}
    named = [term for those in terms(states, {}, []).values() for term in those]
    unclean = [term for term in named if term.election in (Election.UNCLEAN, Election.LAST_KNOWN)]
    assert len(unclean) == len(elected)
    assert {at[term.elected_at] for term in unclean} <= {offset for offset, *_ in elected}
    assert {term.election for term in named} == set(Election)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_model_refutes_changed_records(path: Path, every: int) -> None:
    rules = ControllerRules.of(numbers(path.stem))
    records = [
        MetadataRecord(offset=one.offset, kind=one.kind, data=one.data, snapshot=one.snapshot)
        for one in metadata_log.records(path.read_text(encoding="utf-8"))
    ]
    step = dict(replay(records, rules).steps)
    refuted, accepted = 0, []
    changes = [i for i, one in enumerate(records) if one.kind == "PARTITION_CHANGE_RECORD"]
    for index in changes[::every]:
        record = records[index]
        for name, data in wrong(dict(record.data)):
            others = [] if data is None else [replace(record, data=data)]
            found = replay([*records[:index], *others, *records[index + 1 :]], rules)
            if found.mismatch is not None:
                refuted += 1
            else:
                accepted.append((name, step[record.offset], record.offset))
    assert refuted > 300 / every
    # Leader, leader epoch and ELR follow from the rules for every request.
    assert {name for name, _, _ in accepted} <= {
        "isr",
        "no isr",
        "nothing",
        "no leaderRecoveryState",
    }
    assert [one for one in accepted if not one[1].startswith(FREE)] == []
    assert len(accepted) < refuted / 8
