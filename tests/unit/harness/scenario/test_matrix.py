from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario.changes import MatrixError, entries
from ackproof.scenario.loader import load

SCENARIO = Path(__file__).parents[4] / "scenarios" / "durability.yaml"


def test_dimensions_are_combined() -> None:
    configurations = entries(
        [
            {"workload.settings.acks": [1, "all"]},
            {"topics.orders.settings.min.insync.replicas": [1, 2]},
            {"quiet": {"faults": []}, "loud": {"faults": [{"fault": "kill"}]}},
        ]
    )
    assert len(configurations) == 8
    assert configurations[0].name == "acks=1, min.insync.replicas=1, quiet"
    assert configurations[-1].name == "acks=all, min.insync.replicas=2, loud"
    assert configurations[-1].changes == {
        "workload": {"settings": {"acks": "all"}},
        "topics": {"orders": {"settings": {"min.insync.replicas": 2}}},
        "faults": [{"fault": "kill"}],
    }


def test_booleans_are_named_as_in_yaml() -> None:
    [on, off] = entries([{"workload.settings.enable.idempotence": [True, False]}])
    assert (on.name, off.name) == ("enable.idempotence=true", "enable.idempotence=false")


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([], "it must map names"),
        ([{f"workload.k{n}": list(range(10))} for n in range(6)], "1,000,000 configurations"),
        ([{}], r"matrix\.0: a dimension"),
        (["acks"], r"matrix\.0: a dimension"),
        ([{"kafka": ["4.3.1"], "seed": [1]}], "one key"),
        ([{"kafka": []}], "at least one value"),
        ([{"name": ["a", "b"]}], "'name' cannot differ"),
        ([{"a": {"version": 2}}], "'version' cannot differ"),
    ],
)
def test_an_illegal_matrix_is_refused(matrix: list[object], expected: str) -> None:
    with pytest.raises(MatrixError, match=expected):
        entries(matrix)


def test_an_illegal_combination_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    text = SCENARIO.read_text()
    path.write_text(
        text[: text.index("matrix:")] + "matrix:\n  - workload.settings.acks: [1, all]\n"
        "  - workload.settings.enable.idempotence: [true]\n"
    )
    with pytest.raises(ScenarioError, match=r"configuration 'acks=1, enable\.idempotence=true'"):
        load(path)


def test_varied_faults_are_listed_by_name() -> None:
    configurations = load(SCENARIO)
    assert configurations[1].varied["faults"] == "isolate_replication, kill"
    assert configurations[1].varied["min.insync.replicas"] == 1
