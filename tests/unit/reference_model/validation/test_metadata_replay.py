from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ackproof_model.kafka.partition_change import UNASSIGNED, ControllerRules, Election
from ackproof_model.validation.controller_state import MetadataRecord
from ackproof_model.validation.metadata_replay import Replay, replay
from unit.reference_model.validation.controller_log import ORDERS, Controller

#: A leader's ISR is its own choice; everything else follows.
KAFKA_4 = ControllerRules.of((4, 3, 1))


def gone_and_back() -> Controller:
    """All three are lost one after the other, uncleanly, and come back (ELR)."""
    kafka = Controller()
    for broker in (3, 2, 1):
        kafka.fence(broker)
    for broker in (3, 2, 1):
        kafka.register(broker, clean=False)
        kafka.unfence(broker)
    kafka.ask(isr=(1,), recovering=False)
    kafka.ask(isr=(1, 2), recovering=False)
    kafka.ask(isr=(1, 2, 3), recovering=False)
    return kafka


def stopped_in_order() -> Controller:
    """All three stop cleanly, and one of the ELR leads again."""
    kafka = Controller()
    for broker in (1, 2, 3):
        kafka.shut_down(broker)
        kafka.fence(broker)
    for broker in (1, 2, 3):
        kafka.register(broker)
        kafka.unfence(broker)
    kafka.ask(isr=(2, 1))
    kafka.ask(isr=(2, 1, 3))
    kafka.elect(Election.PREFERRED)
    return kafka


def without_elr() -> Controller:
    """The last member of the ISR stays; an unclean election takes another."""
    kafka = Controller((3, 9, 1), elr=False, unclean=True, metadata_version=21)
    kafka.ask(isr=(1, 2))
    kafka.fence(2)
    kafka.fence(3)
    kafka.fence(1)
    kafka.register(3)
    kafka.unfence(3)
    kafka.write("NO_OP_RECORD")
    return kafka


def unclean_setting_ignored() -> Controller:
    """Version 3.8: the setting is on, and still nobody but the last member of the ISR leads."""
    kafka = Controller((3, 8, 1), elr=False, unclean=True, metadata_version=20)
    kafka.fence(2)
    kafka.fence(3)
    kafka.fence(1)
    kafka.unfence(3)
    kafka.unfence(1)
    return kafka


def moved() -> Controller:
    """Replicas move, a move is taken back, a directory is assigned, a broker goes for good."""
    kafka = Controller(brokers=4)
    kafka.ask(replicas=(1, 2, 4, 3), removing=(3,), adding=(4,))
    kafka.ask(isr=(1, 2, 3), replicas=(1, 2, 3), removing=(), adding=())
    kafka.ask(replicas=(1, 2, 4, 3), removing=(3,), adding=(4,))
    kafka.ask(isr=(1, 2, 3, 4))
    kafka.ask(directory=(2, UNASSIGNED))
    kafka.unregister(2)
    return kafka


def elected_while_fenced() -> Controller:
    """Version 4.0: the last known leader is elected as it registers without its records."""
    kafka = Controller((4, 0, 0))
    for broker in (2, 1, 3):
        kafka.fence(broker)
    for broker in (1, 3):
        kafka.register(broker, clean=False)
        kafka.unfence(broker)
    kafka.ask(isr=(3,), recovering=False)
    return kafka


def explained(records: list[MetadataRecord], rules: ControllerRules = KAFKA_4) -> Replay:
    return replay(records, rules)


@pytest.mark.parametrize(
    "life",
    [
        gone_and_back,
        elected_while_fenced,
        stopped_in_order,
        without_elr,
        unclean_setting_ignored,
        moved,
    ],
)
def test_what_the_rules_wrote_is_explained_to_its_end(life: Callable[[], Controller]) -> None:
    kafka = life()
    found = explained(kafka.log, kafka.rules)
    assert found.mismatch is None, str(found.mismatch)
    assert found.explained == found.total > 2


def test_who_was_elected_before_another_registration_leaves_the_isr_by_it() -> None:
    kafka = elected_while_fenced()
    kafka.ask(isr=(3, 1))
    kafka.register(1)
    assert explained(kafka.log, kafka.rules).mismatch is None
    missing = explained(kafka.without(-1), kafka.rules).mismatch
    assert missing is not None
    assert missing.observed == "nothing was written before it"


def test_each_kind_of_step_is_called_by_its_name() -> None:
    assert explained(gone_and_back().log).coverage == {
        "broker fenced: no leader, ELR grows": 1,
        "broker fenced: same leader": 1,
        "broker fenced: same leader, ELR grows": 1,
        "broker unfenced: last known leader": 1,
        "leader expands the ISR: same leader": 2,
        "leader has recovered: same leader": 1,
        "partition created": 1,
        "registered after an unclean stop: same leader, ELR shrinks": 2,
    }
    names = " ".join(explained(stopped_in_order().log).coverage)
    for kind in (
        "controlled shutdown: leader from the ISR",
        "controlled shutdown: no leader, ELR grows",
        "broker unfenced: leader from the ELR, ELR shrinks",
        "preferred election: leader from the ISR",
    ):
        assert kind in names
    kafka = without_elr()
    names = " ".join(explained(kafka.log, kafka.rules).coverage)
    assert "leader shrinks the ISR: same leader" in names
    assert "broker fenced: no leader" in names
    assert "broker unfenced: leader from outside" in names
    kafka = unclean_setting_ignored()
    names = " ".join(explained(kafka.log, kafka.rules).coverage)
    assert "broker unfenced: leader from the ISR" in names
    assert "outside" not in names
    names = " ".join(explained(moved().log).coverage)
    for kind in (
        "reassignment: ",
        "reassignment cancelled: ",
        "directory assigned: ",
        "broker unregistered: ",
    ):
        assert kind in names


def put(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(fields)


def drop(field: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.pop(field)


@pytest.mark.parametrize(
    ("life", "number", "alter"),
    [
        pytest.param(gone_and_back, 0, put(isr=[1, 2, 3]), id="a fenced broker stays in the ISR"),
        pytest.param(gone_and_back, 1, put(isr=[2]), id="another ISR than the fence leaves"),
        pytest.param(gone_and_back, 2, put(leader=2), id="a leader outside the ISR"),
        pytest.param(gone_and_back, 2, drop("leader"), id="the leader epoch is not raised"),
        pytest.param(gone_and_back, 1, drop("eligibleLeaderReplicas"), id="no ELR"),
        pytest.param(gone_and_back, 2, put(eligibleLeaderReplicas=[1]), id="an ELR member dropped"),
        pytest.param(gone_and_back, 2, drop("lastKnownElr"), id="the last leader is forgotten"),
        pytest.param(
            gone_and_back, 4, put(eligibleLeaderReplicas=[1, 2]), id="unclean, yet eligible"
        ),
        pytest.param(gone_and_back, -4, drop("leaderRecoveryState"), id="unclean, yet recovered"),
        pytest.param(gone_and_back, -1, put(isr=[1, 2, 4]), id="a stranger in the ISR"),
        pytest.param(gone_and_back, -1, put(isr=[2, 3]), id="an ISR without its leader"),
        pytest.param(gone_and_back, -1, put(leader=1), id="the leader epoch is raised for nothing"),
        pytest.param(stopped_in_order, 0, put(leader=3), id="not the first in the assignment"),
        pytest.param(without_elr, 3, put(isr=[]), id="an empty ISR without ELR"),
        pytest.param(moved, 3, drop("leader"), id="a replica gone under the same epoch"),
        pytest.param(moved, 3, put(removingReplicas=[3]), id="a reassignment half done"),
    ],
)
def test_a_tampered_log_is_refuted_where_it_was_tampered_with(
    life: Callable[[], Controller], number: int, alter: Callable[[dict[str, Any]], None]
) -> None:
    kafka = life()
    changes = [one.offset for one in kafka.log if one.kind == "PARTITION_CHANGE_RECORD"]
    found = explained(kafka.tampered(number, alter), kafka.rules)
    assert found.mismatch is not None
    assert found.mismatch.where == f"metadata offset {changes[number]} about orders-0"
    assert found.explained == changes.index(changes[number])
    assert found.mismatch.expected
    assert found.mismatch.before


@pytest.mark.parametrize(
    ("life", "number"),
    [(gone_and_back, n) for n in range(3)]
    + [(stopped_in_order, n) for n in range(4)]
    + [(without_elr, n) for n in range(1, 4)]
    + [(moved, -1)],
)
def test_a_change_that_is_missing_is_missed(life: Callable[[], Controller], number: int) -> None:
    kafka = life()
    found = explained(kafka.without(number), kafka.rules)
    assert found.mismatch is not None
    assert "nothing was written" in str(found.mismatch)


def test_the_first_step_that_does_not_fit_says_what_the_rules_would_have_written() -> None:
    kafka = gone_and_back()
    found = explained(kafka.tampered(2, put(leader=2)))
    assert str(found.mismatch) == (
        "metadata offset 16 about orders-0: isr [], leader 2, elr [1, 2], last known elr [1] "
        "(it was replicas [1, 2, 3], isr [1], leader 1, leader epoch 0, partition epoch 2, "
        "elr [2]); by the rules: "
        "broker fenced (1): isr [], leader -1, elr [1, 2], last known elr [1]; "
        "ISR [] is refused to the leader (1): nothing"
    )


def test_a_version_is_held_against_its_own_rules() -> None:
    # Before 4.3.0, a new directory is noted as if ELR were off (apache/kafka#20716).
    kafka = Controller()
    kafka.fence(3)
    kafka.fence(2)
    assert kafka.state.partitions[ORDERS].elr == (2,)
    kafka.ask(directory=(2, UNASSIGNED))
    assert explained(kafka.log).mismatch is None
    assert explained(kafka.log, ControllerRules.of((4, 2, 1))).mismatch is not None


def test_a_snapshot_is_taken_as_it_is() -> None:
    kafka = gone_and_back()
    whole = [
        MetadataRecord(offset=one.offset, kind=one.kind, data=one.data, snapshot=True)
        for one in kafka.log
    ]
    found = explained(whole)
    assert (found.mismatch, found.explained) == (None, 0)


def test_a_new_partition_is_in_sync_where_brokers_are_active() -> None:
    kafka = Controller()
    kafka.fence(3)
    kafka.write("TOPIC_RECORD", name="more", topicId="U")
    new = {
        "topicId": "U",
        "partitionId": 0,
        "replicas": [3, 1, 2],
        "leaderEpoch": 0,
        "partitionEpoch": 0,
    }
    kafka.write("PARTITION_RECORD", **new, isr=[1, 2], leader=1)
    assert explained(kafka.log).mismatch is None
    kafka.write("PARTITION_RECORD", **(new | {"partitionId": 1}), isr=[3, 1, 2], leader=3)
    assert "created: " in str(explained(kafka.log).mismatch)


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        (
            "BROKER_REGISTRATION_CHANGE_RECORD",
            {"brokerId": 1, "brokerEpoch": 9999, "fenced": -1},
            "changes broker 1 at epoch 9999",
        ),
        ("PARTITION_CHANGE_RECORD", {"topicId": "T", "partitionId": 7}, "does not exist"),
        ("UNREGISTER_BROKER_RECORD", {"brokerId": 8, "brokerEpoch": 1}, "does not exist"),
    ],
)
def test_a_record_about_what_is_not_there_is_refuted(
    kind: str, data: dict[str, Any], problem: str
) -> None:
    log = [*Controller().log, MetadataRecord(offset=99, kind=kind, data=data)]
    assert problem in str(explained(log).mismatch)
