"""Names of configurations."""

from __future__ import annotations

import pytest

from ackproof_spark.warehouse.configuration import configuration_name

DURABILITY = {
    "acks": "all",
    "enable.idempotence": True,
    "replication_factor": 3,
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": False,
}


@pytest.mark.parametrize(
    ("arm", "changed", "overrides", "name"),
    [
        ("acks=1", {}, {}, "acks=1"),
        ("acks=1", {}, {"seed": 3, "kafka": "3.9.1"}, "acks=1"),
        ("acks=1", {}, {"workload": {"settings": {"acks": "all"}}}, "acks=1 with acks=all"),
        ("", {}, {}, "acks=all, min.insync.replicas=2"),
        ("", {"acks": 1}, {}, "acks=1, min.insync.replicas=2"),
        (
            "",
            {"enable.idempotence": False, "replication_factor": 1},
            {},
            "acks=all, min.insync.replicas=2, enable.idempotence=false, replication_factor=1",
        ),
        ("", {"acks": 1, "enable.idempotence": False}, {}, "acks=1, min.insync.replicas=2"),
        # Settings of durability are in the name already.
        (
            "",
            {},
            {"workload": {"settings": {"acks": "all"}, "rate": 5}},
            "acks=all, min.insync.replicas=2 with rate=5",
        ),
    ],
)
def test_a_name_has_the_arm_or_what_decides_and_what_was_replaced(arm, changed, overrides, name):
    assert configuration_name(arm, DURABILITY | changed, overrides) == name


def test_many_replaced_settings_become_a_number_and_a_digest():
    first, other = (
        configuration_name("a", {}, {"cluster": {"settings": {**dict.fromkeys("bcde", 1), "f": f}}})
        for f in (1, 2)
    )
    assert first.startswith("a with 5 own settings (")
    assert first != other
