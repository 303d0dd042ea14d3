from __future__ import annotations

import pytest

from ackproof_spark.jepsen.configuration import (
    ALLOWED,
    DEFAULTS,
    UNDECIDED,
    Configuration,
    judge,
)
from ackproof_spark.jepsen.tables import HistoryAnomaly as Is

#: Anomalies that no configuration allows.
NEVER = {Is.INT_POLL_SKIP, Is.INT_NONMONOTONIC_POLL, Is.PHANTOM}
CONFIGURATIONS = {
    "sub_via": Configuration(sub_via="subscribe"),
    "isolation_level": Configuration(isolation_level="read_uncommitted"),
    "acks": Configuration(acks="1"),
    "idempotence": Configuration(idempotence=False),
}


def test_every_anomaly_is_allowed_forbidden_or_undecided() -> None:
    mentioned = {anomaly for row in ALLOWED for anomaly in row.anomalies} | set(UNDECIDED)
    assert sorted([*mentioned, *NEVER]) == sorted(Is)


@pytest.mark.parametrize("row", ALLOWED, ids=lambda row: row.anomalies[0].value)
def test_an_anomaly_is_allowed_by_its_setting_and_otherwise_forbidden(row) -> None:
    for anomaly in row.anomalies:
        with_it = CONFIGURATIONS.get(row.setting, DEFAULTS)
        assert judge({anomaly: 1}, with_it, records=1).verdict == "holds"
        assert judge({anomaly: 1}, with_it, records=1).allowed == {anomaly: row.reason}
        by_order = row.setting == "ww_deps" or anomaly is Is.G1C
        without = Configuration(ww_deps=False) if by_order else DEFAULTS
        forbidden = row.setting is not None
        assert (judge({anomaly: 1}, without, records=1).verdict == "violated") == forbidden


@pytest.mark.parametrize("anomaly", sorted(NEVER))
def test_anomalies_that_are_never_allowed(anomaly: Is) -> None:
    loose = Configuration(
        sub_via="subscribe", isolation_level="read_uncommitted", acks="0", idempotence=False
    )
    judgement = judge({anomaly: 1, Is.UNSEEN: 1, Is.G0: 1}, loose, records=1)
    assert judgement.verdict == "violated"
    assert judgement.reason == anomaly
    assert list(judgement.allowed) == [Is.G0]


def test_an_undecided_history_is_inconclusive() -> None:
    assert judge({Is.UNSEEN: 1}, DEFAULTS, records=1).verdict == "inconclusive"
    assert judge({}, DEFAULTS, records=0).verdict == "inconclusive"
    assert judge({Is.UNSEEN: 0, Is.PHANTOM: 0}, DEFAULTS, records=1).verdict == "holds"


def test_a_cycle_of_reads_is_allowed_with_read_uncommitted_under_both_names() -> None:
    """Without ww_deps a cycle of wr edges is a G1c and a G1c-wr."""
    counts = {Is.G1C: 1, Is.G1C_WR: 1}
    without = Configuration(ww_deps=False)
    assert judge(counts, without, records=1).verdict == "violated"
    loose = Configuration(ww_deps=False, isolation_level="read_uncommitted")
    assert judge(counts, loose, records=1).verdict == "holds"
