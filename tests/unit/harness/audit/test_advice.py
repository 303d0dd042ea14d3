"""An advice can be made, and it helps: the case files that showed the opposite."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.audit.answer import Answer, Effect, Word
from ackproof.audit.failure import Failure
from ackproof.audit.outputs.summary import summaries
from ackproof.audit.request import Request, audit

CASES = Path(__file__).parents[3] / "data" / "cases"


def answer(*names: str, kafka: str = "") -> Answer:
    [only] = audit(Request(files=tuple(CASES / name for name in names), kafka=kafka)).groups
    return only.answer


def proposed(one: Answer) -> list[tuple[str, str]]:
    return [(change.setting, change.change) for change in one.alternatives[-1].changes]


@pytest.mark.parametrize("producer", ["min-producer.properties", "min-producer-acks-1.properties"])
def test_one_broker_needs_more_brokers_before_more_replicas(producer: str) -> None:
    one = answer("min-07-one-broker.yml", producer)
    assert ("brokers", "3") in proposed(one)
    every = {change.setting for risk in one.risks for change in risk.decided_by}
    assert "replication.factor" not in every
    assert "offsets.topic.replication.factor" not in every
    [disk] = [risk for risk in one.risks if risk.failures == (Failure.DISK_REPLACED,)][:1]
    assert (disk.case, disk.likelihood) == ("B34", "certain")
    assert "brokers" in {change.setting for change in disk.decided_by}


def test_with_one_replica_acks_1_and_acks_all_are_decided_alike() -> None:
    of_1, of_all = (
        answer("min-07-one-broker.yml", name)
        for name in ("min-producer-acks-1.properties", "min-producer.properties")
    )
    assert of_1.undecided == of_all.undecided == ()
    assert of_1.survives == of_all.survives
    lost = [
        {risk.failures for risk in one.risks if risk.effect is Effect.LOST}
        for one in (of_1, of_all)
    ]
    assert lost[0] == lost[1]


def test_an_upgrade_from_zookeeper_has_answers() -> None:
    one = answer("min-09-zookeeper-3.9.properties", "min-producer.properties", kafka="3.9.1")
    assert proposed(one)[0] == ("min.insync.replicas", "2")
    assert one.table is not None
    assert all(row.cells[-1].word is not Word.UNKNOWN for row in one.table.rows)


def test_the_value_that_is_there_is_not_proposed() -> None:
    files = ("min-10-no-op-advice.properties", "min-producer.properties")
    one = answer(*files, "min-consumer-latest.properties", kafka="3.9.1")
    changes = [change for risk in one.risks for change in risk.decided_by]
    assert not [change for change in changes if change.change == change.value]
    [rack] = [risk for risk in one.risks if risk.case == "B27" and len(risk.failures) == 1]
    assert rack.decided_by[0].setting == "broker.rack"


def test_offsets_on_more_replicas_than_brokers_have_an_answer(tmp_path: Path) -> None:
    compose = (CASES / "min-07-one-broker.yml").read_text()
    two = compose.replace("REPLICATION_FACTOR: 1", "REPLICATION_FACTOR: 3")
    file = tmp_path / "docker-compose.yml"
    file.write_text(two)
    [one] = audit(Request(files=(file, CASES / "min-consumer-latest.properties"))).answers
    assert one.risks


def test_idempotence_is_proposed_together_with_the_acks_that_it_needs() -> None:
    files = ("min-kraft-three.properties", "min-producer-acks-1.properties")
    one = answer(*files, kafka="3.9.1")
    changes = [change for risk in one.risks for change in risk.decided_by]
    idempotent = [change for change in changes if change.setting == "enable.idempotence"]
    assert {change.together_with for change in idempotent} == {"acks=all"}


def test_writes_that_stop_lead_to_no_advice_by_which_more_is_lost() -> None:
    for name in ("min-kraft-three.properties", "min-25-two-of-two-unclean.properties"):
        one = answer(name, "min-producer.properties", kafka="3.9.1")
        stops = [risk for risk in one.risks if risk.effect is Effect.WRITES_STOP]
        assert stops
        assert not [change for risk in stops for change in risk.decided_by]


def test_brokers_for_the_offsets_topic_alone_are_named_as_such_beside_an_upgrade() -> None:
    file = CASES.parent / "own_config" / "compose-unknown-image.yml"
    whole = audit(Request(files=(file,), kafka="2.0.1"))
    [one] = whole.answers
    upgrades = {
        (risk.effect is Effect.LOST, change.topic, "replication.factor of as many" in change.cost)
        for risk in one.risks
        for change in risk.decided_by
        if change.setting == "kafka.version" and ("brokers", "3") in change.others
    }
    assert upgrades == {(True, "", False), (False, "__consumer_offsets", True)}
    notes = "\n".join(summaries(whole)[0].notes)
    assert "brokers=3 and kafka.version=4.1 or later for __consumer_offsets" in notes
