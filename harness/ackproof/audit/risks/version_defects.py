"""Defects of the version of librdkafka that the producer runs with."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.scenario.librdkafka import DEFECTS

KIND = Kind(
    title="a defect of the version of librdkafka",
    subject=Subject.LOSSES,
    rare=True,
    texts={Effect.LOST: Text(at_risk="records in flight at that moment")},
    failures=tuple(dict.fromkeys(Failure(name) for one in DEFECTS for name in one.failures)),
    cases=tuple(one.case for one in DEFECTS),
    removed_by={"librdkafka": ", ".join(one.fixed_version for one in DEFECTS)},
)


def risks(setup: Setup) -> Iterator[Risk]:
    producer = setup.producer
    if producer is None or producer.library != "librdkafka" or producer.version is None:
        return
    for defect in DEFECTS:
        given = producer.settings.get(defect.setting)
        used = given is not None and given.value.lower() != "false"
        if used and defect.is_in(producer.version.value):
            yield KIND.risk(
                setup,
                tuple(map(Failure, defect.failures)),
                text=str(defect),
                case=defect.case,
                trace=[f"{defect.text[0].upper()}{defect.text[1:]}."],
                decided_by=[
                    decision("librdkafka", producer.version, defect.fixed_version, "an upgrade")
                ],
            )
