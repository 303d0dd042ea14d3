"""Which findings are known defects, what is said of them, and that the limits have a way there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rediscover
from rediscover import DEFECTS, NOTHING, OUT_OF_REACH, Defect, shown_by, table, until_shown

from ackproof.exploration.coverage import reached
from ackproof.exploration.guarantee import promise, survivable
from ackproof.exploration.next_schedule import Strategy
from ackproof.exploration.results import Proposal, Result, Schedule
from ackproof.planning.compiler import client_holds
from ackproof.planning.search import question
from ackproof.runs.verdict import Finding
from ackproof_model.adversary import Budgets, search
from ackproof_model.coverage import Pair, Shape
from ackproof_model.planning import CLIENT_HOLDS, Operation, OperationKind, realized

NOBODY = Shape(leader=-1, isr=(), elr=(0,), last_known=0)
ALONE = Shape(leader=0, isr=(0,))
#: The last known leader is elected when it registers, and is fenced; when it has a session; and
#: when another broker, which was eligible, registers.
FENCED = Pair(step="restart", before=NOBODY, after=ALONE)
UNFENCED = Pair(step="unfence", before=NOBODY, after=ALONE)
OTHER = Pair(step="restart", before=NOBODY._replace(elr=(1,)), after=ALONE)


def defect(name: str) -> Defect:
    [found] = [one for one in DEFECTS if one.name == name]
    return found


def result(*anomalies: str, number: int = 0, certain: tuple[Pair, ...] = ()) -> Result:
    kill = Operation(kind=OperationKind.KILL, broker=0)
    return Result(
        seed=1,
        number=number,
        known={},
        proposal=Proposal(schedule=Schedule(operations=(kill,), records=5), origin="aimed"),
        run=str(number),
        verdict="violated",
        reason="",
        findings=tuple(
            Finding(anomaly=each, predicted="possible", observed=3, explanation="")
            for each in anomalies
        ),
        certain=certain,
    )


@pytest.mark.parametrize(
    ("name", "anomalies", "cases", "certain", "shown"),
    [
        ("B10", ["lost"], {"B10"}, (), True),
        ("B10", ["lost"], {"B2"}, (), False),
        ("B10", ["duplicated"], {"B10"}, (), False),
        ("B11", ["diverged"], {"B4"}, (), True),
        ("B11", ["lost"], {"B4"}, (), False),
        ("KAFKA-19522", ["lost"], {"B7"}, (UNFENCED, FENCED), True),
        ("KAFKA-19522", ["lost"], {"B7"}, (UNFENCED,), False),
        ("KAFKA-19522", ["lost"], {"B7"}, (OTHER,), False),
        ("KAFKA-19522", [], set(), (FENCED,), False),
        ("B31", ["lost"], {"B9", "B31"}, (), True),
        ("B31", ["lost"], {"B9"}, (), False),
        ("B56", ["unexplained-log", "lost"], {"B56"}, (), True),
        ("B57", ["lost"], {"B56"}, (), False),
        ("B14", ["aborted-read"], set(), (), True),
        ("B14", ["hanging-transaction"], set(), (), True),
        ("B14", ["lost"], {"B13"}, (), False),
        ("B15", ["lost"], {"B13"}, (), True),
        ("B15", ["aborted-read"], set(), (), True),
        ("B15", ["lost"], {"B58"}, (), False),
    ],
)
def test_a_finding_is_recognised_by_its_cause_or_by_what_the_run_passed_through(
    name: str, anomalies: list[str], cases: set[str], certain: tuple[Pair, ...], shown: bool
) -> None:
    assert defect(name).sign.of(result(*anomalies, certain=certain), cases) is shown


def test_the_first_result_that_shows_the_defect_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [
        result(number=0),
        result("lost", number=1),
        result("lost", number=2),
        result("lost", number=3),
    ]
    causes = {"1": "B2", "2": "B57", "3": "B57"}
    folder: Any = SimpleNamespace(runs=Path(), results=lambda: {one.name: one for one in results})
    monkeypatch.setattr(
        rediscover,
        "read_verdict",
        lambda path: SimpleNamespace(causes=[SimpleNamespace(case=causes[path.name])]),
    )
    assert shown_by(defect("B57"), folder) == "1-00002"
    assert list(until_shown(folder.results(), "1-00002")) == ["1-00000", "1-00001", "1-00002"]
    assert shown_by(defect("B56"), folder) == ""
    assert len(until_shown(folder.results(), "")) == 4


def test_only_4_0_elects_a_fenced_broker() -> None:
    # With two replicas there are few states.
    own = replace(defect("KAFKA-19522"), assignment=(1, 2), limits=Budgets(kills=2))
    mended = replace(own, kafka="4.1.2")
    lost = result("lost")
    shown = [
        own.sign.of(lost.model_copy(update={"certain": tuple(found.pairs)}), ())
        for found in (
            reached(each.scenario(), own.limits, max_states=200_000) for each in (own, mended)
        )
    ]
    assert shown == [True, False]


@pytest.mark.parametrize("name", ["KAFKA-19522", "B31", "B57"])
def test_the_limits_allow_the_loss_that_the_model_knows(name: str) -> None:
    own = defect(name)
    plan = realized(search(survivable(question(own.scenario(), own.limits))))
    assert plan is not None
    assert plan.lost
    assert promise(plan)


def test_the_model_knows_the_loss_of_b10_without_a_schedule_for_prompt_brokers() -> None:
    answer = search(question(defect("B10").scenario(), defect("B10").limits))
    assert answer.lost
    mended = replace(defect("B10"), kafka="0.11.0.3")
    assert search(question(mended.scenario(), mended.limits)).impossible


@pytest.mark.parametrize("name", ["B14", "B15"])
def test_requests_of_transactions_can_be_held(name: str) -> None:
    assert client_holds(defect(name).scenario()) == CLIENT_HOLDS
    assert not client_holds(defect("B31").scenario())


def test_no_finding_is_what_explorations_for_pairs_look_for() -> None:
    assert not NOTHING.sign.of(result("lost", "aborted-read"), {"B9"})


def test_every_defect_is_looked_for_or_has_a_reason() -> None:
    names = [*(one.name for one in DEFECTS), *(one.name for one in OUT_OF_REACH)]
    assert len(set(names)) == len(names) == 11
    assert all(one.why for one in OUT_OF_REACH)


def test_the_table_has_medians_and_what_is_out_of_reach() -> None:
    def line(seed: int, seconds: int | None) -> dict[str, Any]:
        return {
            "defect": "B57",
            "mode": Strategy.BLIND,
            "seed": seed,
            "found": seconds is not None,
            "seconds": seconds,
            "planning_s": 20,
            "limit_s": 600 * seed,
            "schedules": 4,
            "share": 0.25,
            "load": 6.6,
        }

    text = "\n".join(table([line(1, 90), line(2, 30), line(3, None)]))
    assert "| B57 on 4.4.0 | blind (1, 2, 3) | 2 of 3 in 10, 20, 30 | 60 (30 to 90) |" in text
    assert "| 60 (30 to 90) | 4 | 25 % | 7 |" in text
    assert "3 explorations, 0.6 hours in all." in text  # 90 + 30 + 1,800 + 3 * 20 s
    assert "- B12 on 3.9.0: it needs a held response of a fetch, producers" in text
    assert "| B56" not in text
    only_pairs = "\n".join(table([{**line(1, None), "defect": "nothing"}]))
    assert "| nothing on 4.4.0 | blind (1) | - of 1 in 10 | - | 4 | 25 % |" in only_pairs
    late = "\n".join(table([line(1, 90), line(2, 1300)]))
    assert "| B57 on 4.4.0 | blind (1, 2) | 1 of 2 in 10, 20 | 90 |" in late
