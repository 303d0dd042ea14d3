"""Answers of audits, built by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ackproof.audit.answer import (
    Alternative,
    Answer,
    Assumed,
    Audit,
    Decision,
    Effect,
    Risk,
    Runs,
)
from ackproof.audit.assumption import When
from ackproof.audit.failure import Failure, Failures
from ackproof.audit.finishing import finished
from ackproof.audit.merging import grid
from ackproof.audit.table import table
from ackproof.own_config.configuration import JAVA_CLIENT, Default, FileRead, FileRefused, Given
from support.origins import at

LAG, CRASH, POWER = Failure.LAG, Failure.CRASH, Failure.POWER_LOSS

MINIMUM = Decision(
    setting="min.insync.replicas",
    value="1",
    source=at("docker-compose.yml:18"),
    change="2",
    cost="while two of three replicas are away, writes with acks=all are refused",
)
VERSION = Decision(
    setting="kafka.version", value="3.9.1", source=at("docker-compose.yml:4"), change="4.1.0"
)


def risk(
    effect: Effect = Effect.LOST, failures: tuple[Failure, ...] = (LAG, POWER), **changes: object
):
    """Return a risk; without changes the loss B5."""
    values: dict[str, object] = {
        "effect": effect,
        "likelihood": "possible",
        "failures": failures,
        "case": "B5" if effect is Effect.LOST else "",
        "text": "The leader acks alone, and loses power.",
        "trace": (
            "Both followers fall out of the ISR.",
            "The leader acks alone.",
            "It loses power.",
        ),
        "decided_by": (MINIMUM,),
        "runs": Runs(showed=10, of=10, kafka="4.3.1"),
    }
    return Risk(**(values | changes))


def orders(**changes: object) -> Answer:
    """Return the answer for the topic orders, with three losses and what two changes end."""
    whole_isr = risk(
        failures=(POWER, POWER, POWER),
        case="B9",
        trace=(),
        decided_by=(),
        runs=Runs(showed=9, of=10, kafka="4.3.1"),
    )
    reprocessed = risk(
        Effect.REPROCESSED,
        (Failure.CONSUMER_CRASH,),
        case="B26",
        trace=(),
        decided_by=(),
        runs=None,
        text="The group reads again from its last commit.",
    )
    disk = risk(failures=(LAG, Failure.DISK_REPLACED), case="B34", decided_by=(VERSION,))

    def stops(count: int) -> Risk:
        return risk(
            Effect.WRITES_STOP, (CRASH,) * count, decided_by=(), trace=(), runs=None, text=""
        )

    survives = ((CRASH, CRASH), (LAG, CRASH), (Failure.CLEAN_RESTART,) * 3)
    values: dict[str, object] = {
        "topic": "orders",
        "producer": "app/application.yml",
        "settings": {
            "replication.factor": Given("3", at("docker-compose.yml:17")),
            "min.insync.replicas": Given("1", at("docker-compose.yml:18")),
            "acks": Given("all", at("app/application.yml:9")),
            "enable.idempotence": Given("true", Default(JAVA_CLIENT, "3.9.1")),
        },
        "unstated": (),
        "risks": (risk(), disk, whole_isr, reprocessed, stops(3)),
        "survives": survives,
    }
    values |= changes
    today: Any = values.pop("assumed", None)
    if today is None:
        today = assumed(({}, values["risks"], values["survives"]))
    whole = (*survives, (LAG, POWER))
    changed = assumed(({}, (disk, whole_isr, reprocessed, stops(2)), whole))
    upgraded = assumed(
        ({}, (whole_isr, reprocessed, stops(2)), (*whole, (LAG, Failure.DISK_REPLACED)))
    )
    default = (
        Alternative(changes=(MINIMUM,)),
        Alternative(changes=(MINIMUM, VERSION)),
    )
    values.setdefault("alternatives", default)
    after = [("min.insync.replicas", "2"), ("kafka.version", "4.1.0")]
    changes_of = list(zip(after, (changed, upgraded), strict=True)) * bool(values["alternatives"])
    answer = Answer(
        **values,
        always_lost=all(
            any(risk.effect is Effect.LOST for risk in today.of(at))
            for at in range(len(today.whens))
        ),
    )
    return replace(answer, table=table(answer, grid(today), changes_of))


def assumed(*answers: tuple[When, Sequence[Risk], Sequence[Failures]]) -> Assumed:
    """Return the answers under some values: these, the risks, and what is survived."""
    whens, risks, survives = zip(*answers, strict=True)
    return Assumed(
        whens=whens,
        risks=risks,
        parts=tuple((at,) for at in range(len(answers))),
        survives=survives,
        undecided=((),) * len(answers),
    )


def audit(*answers: Answer, **changes: object) -> Audit:
    """Return the finished audit of a compose file and an application, with a refused file."""
    values: dict[str, object] = {
        "read": (
            FileRead(file="docker-compose.yml", shape="compose"),
            FileRead(file="app/application.yml", shape="Spring"),
        ),
        "refused": (FileRefused(file="values.yaml", reason="a Helm template: render it first"),),
        "version": Given("3.9.1", at("docker-compose.yml:4")),
        "mode": Given("kraft", at("docker-compose.yml:11")),
        "answers": answers or (orders(),),
        "not_looked_at": ("what your code does with a failed send",),
    }
    return finished(Audit(**(values | changes)))
