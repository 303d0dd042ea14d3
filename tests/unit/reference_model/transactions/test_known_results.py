"""What can go wrong with transactions, by version and protocol, and in how few steps.

A row: the anomalies within these budgets and the length of the shortest way to each; all others of
`ANOMALIES` are impossible within them.
"""

from __future__ import annotations

import pytest

from ackproof_model.transactions import (
    ANOMALIES,
    TransactionBudgets,
    TransactionModel,
    search,
)
from support.sampling import others_slow

OLD, VERIFYING, FIRST_V2, STRICT = ("2.8.2", 1), ("3.9.1", 1), ("4.0.0", 2), ("4.3.1", 2)
V1_ON_NEW = ("4.3.1", 1)  # librdkafka's, whatever the broker

#: KAFKA-17754: a late EndTxn ends the next transaction, which has the same epoch.
LATE_END = {"aborted-read": 9, "lost": 10, "torn": 12}
#: KIP-1228: a late marker does.
LATE_MARKER = {"aborted-read": 8, "lost": 8, "torn": 11}
#: A record of a transaction that is open for good ends with the next one in its partition.
SKIPPED = {"hanging": 4, "unmarked": 4, "lost": 7, "aborted-read": 8, "torn": 10}
SKIPPED_V2 = {"hanging": 3, "unmarked": 3, "lost": 6, "aborted-read": 6, "torn": 8}
NEVER: dict[str, int] = {}


ROWS = [
    *((client, {}, NEVER) for client in (OLD, VERIFYING, V1_ON_NEW, FIRST_V2, STRICT)),
    (OLD, {"delays": 1}, LATE_END | {"hanging": 6, "unmarked": 10}),
    (VERIFYING, {"delays": 1}, LATE_END),
    (V1_ON_NEW, {"delays": 1}, LATE_END),
    (FIRST_V2, {"delays": 1}, NEVER),
    (STRICT, {"delays": 1}, NEVER),
    (OLD, {"marker_delays": 1}, LATE_MARKER),
    (VERIFYING, {"marker_delays": 1}, LATE_MARKER),
    (V1_ON_NEW, {"marker_delays": 1}, LATE_MARKER),
    # A marker has the epoch of the next transaction already: B15.
    (FIRST_V2, {"marker_delays": 1}, {"aborted-read": 6, "lost": 7, "torn": 9}),
    (("4.1.2", 2), {"marker_delays": 1}, {"aborted-read": 6, "lost": 7, "torn": 9}),
    (STRICT, {"marker_delays": 1}, NEVER),
    *(
        (client, {kind: 1}, NEVER)
        for client in (OLD, VERIFYING, FIRST_V2, STRICT)
        for kind in ("restarts", "timeouts", "failovers", "expirations", "unanswered")
    ),
    # KAFKA-20734: the marker of a partition without a leader is skipped.
    (V1_ON_NEW, {"outages": 1}, SKIPPED),
    (STRICT, {"outages": 1}, SKIPPED_V2),
    *((client, {"outages": 1}, NEVER) for client in (VERIFYING, ("4.1.2", 2), ("4.2.1", 2))),
    # A broker dies with requests on their way, and its partitions move: all is kept.
    *(
        (client, {"partitions": 1, "failovers": 1, "unanswered": 1, "timeouts": 1}, NEVER)
        for client in (VERIFYING, STRICT)
    ),
    # Only a late end of a transaction ends the next one.
    (VERIFYING, {"delays": 1, "delayed": ("end",)}, LATE_END),
    (VERIFYING, {"delays": 1, "delayed": ("add", "produce")}, NEVER),
    (STRICT, {"delays": 1, "timeouts": 1}, NEVER),
    (STRICT, {"delays": 1, "marker_delays": 1}, NEVER),
]


def named(row) -> str:
    client, budgets, _ = row
    return f"{client[0]} protocol {client[1]} {budgets}"


@pytest.mark.parametrize("row", others_slow(ROWS, named, one_of=6))
def test_what_can_go_wrong(row):
    assert_known(*row)


def assert_known(client, budgets, expected):
    version, protocol = client
    found = search(
        TransactionModel(
            kafka_version=version, protocol=protocol, budgets=TransactionBudgets(**budgets)
        )
    )
    assert found.complete
    assert {anomaly: len(way) for anomaly, way in found.traces.items()} == expected
    assert set(expected) <= set(ANOMALIES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "budgets", "expected"),
    [
        (
            OLD,
            {"delays": 1, "restarts": 1},
            LATE_END | {"hanging": 6, "unmarked": 10, "zombie-write": 8},
        ),
        (VERIFYING, {"delays": 1, "restarts": 1}, LATE_END),
        (STRICT, {"delays": 2, "restarts": 1}, NEVER),
        (STRICT, {"delays": 1, "failovers": 1, "restarts": 1}, NEVER),
        (STRICT, {"delays": 2, "transactions": 3}, NEVER),
    ],
)
def test_what_can_go_wrong_within_larger_budgets(client, budgets, expected):
    assert_known(client, budgets, expected)


@pytest.mark.parametrize(
    "client", [VERIFYING, *(pytest.param(one, marks=pytest.mark.slow) for one in (OLD, V1_ON_NEW))]
)
@pytest.mark.parametrize(
    "kind",
    [
        *("delays", "unanswered", "marker_delays", "restarts", "timeouts", "failovers"),
        *("coordinator_losses", "log_losses"),
    ],
)
def test_one_partition_is_enough_for_what_is_predicted(client, kind):
    # `ackproof predict` asks about one.
    version, protocol = client
    ways = [
        search(
            TransactionModel(
                kafka_version=version,
                protocol=protocol,
                budgets=TransactionBudgets(partitions=partitions, **{kind: 1}),
            ),
        ).traces
        for partitions in (1, 2)
    ]
    for anomaly in ("aborted-read", "zombie-commit"):
        assert len({len(found.get(anomaly, ())) for found in ways}) == 1


def test_a_search_without_room_decides_nothing():
    model = TransactionModel(kafka_version="3.9.1", budgets=TransactionBudgets(delays=1))
    found = search(model, max_states=100)
    assert not found.complete
    assert not found.traces


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: TransactionModel(kafka_version="0.10.2"), "has no transactions"),
        (lambda: TransactionModel(kafka_version="3.9.1", protocol=2), "no transactions v2"),
        (lambda: TransactionModel(kafka_version="four"), "is not a version"),
        (lambda: TransactionBudgets(delays=8), "delays is 8"),
        (lambda: TransactionBudgets(restarts=-1), "restarts is -1"),
    ],
)
def test_bad_questions_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


LOST_BY_COORDINATOR = {"aborted-read": 8, "lost": 7, "hanging": 3, "unmarked": 4}
LOST_BY_LOG = {"aborted-read": 9, "lost": 4, "hanging": 5, "unmarked": 5}


@pytest.mark.parametrize("client", [VERIFYING, V1_ON_NEW])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("coordinator_losses", LOST_BY_COORDINATOR), ("log_losses", LOST_BY_LOG)],
)
def test_lost_records_undo_how_a_transaction_ended(client, kind, expected):
    version, protocol = client
    budgets = TransactionBudgets(partitions=1, **{kind: 1})
    found = search(TransactionModel(kafka_version=version, protocol=protocol, budgets=budgets))
    assert found.complete
    assert {anomaly: len(way) for anomaly, way in found.traces.items()} == expected


def test_a_zombie_commits_only_if_the_coordinator_forgot_its_successor():
    def ways(**budgets):
        asked = TransactionBudgets(partitions=1, restarts=1, **budgets)
        return search(TransactionModel(kafka_version="4.3.1", budgets=asked)).traces

    assert "zombie-commit" not in ways()
    assert "zombie-commit" not in ways(failovers=1)
    assert "zombie-commit" not in ways(unanswered=1)
    forgotten = [label for label, _ in ways(coordinator_losses=1)["zombie-commit"]]
    assert "the coordinator fails over and loads EMPTY" in forgotten
    assert forgotten[-1] == "producer 0 commits"


def test_budgets_for_all_perturbations_together():
    def ways(in_all):
        asked = TransactionBudgets(partitions=1, restarts=1, coordinator_losses=1, in_all=in_all)
        return search(TransactionModel(kafka_version="4.3.1", budgets=asked)).traces

    assert ways(0) == {}
    assert "zombie-commit" not in ways(1)
    assert "zombie-commit" in ways(2)
