"""Histories: Jepsen's cases, hand-made ones, and Spark against two oracles on random ones.

One oracle was written from this project's document of anomalies, the other from Jepsen's source.

`ACKPROOF_HISTORIES=10000 pytest tests/golden/test_histories.py` (`ci/histories`) raises the number
of random histories.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from golden import jepsen_definitions
from golden.history_oracle import anomalies, unseen_series
from golden.random_histories import SEED, draw_histories

HISTORIES = int(os.environ.get("ACKPROOF_HISTORIES", "500"))
BATCH = 1500
CASES = {
    f"{file.stem}: {name}": case
    for file in sorted((Path(__file__).parent / "histories").glob("*.json"))
    for name, case in json.loads(file.read_text(encoding="utf-8"))["cases"].items()
}
pytestmark = pytest.mark.spark


def spark_finds(spark, cases: Sequence[dict], folder: Path, *, ww_deps: bool = True) -> list[dict]:
    """Return the anomalies of each case by `check`, including Jepsen's and the further ones."""
    from ackproof_spark.jepsen.check import check
    from ackproof_spark.jepsen.configuration import Configuration
    from ackproof_spark.jepsen.reader import read

    paths = [folder / f"{number}.json" for number in range(len(cases))]
    for path, case in zip(paths, cases, strict=True):
        path.write_text(json.dumps(case), encoding="utf-8")
    reports = check(spark, read(paths), Configuration(ww_deps=ww_deps))
    return [report.anomalies | report.further for report in reports]


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory) -> dict[str, dict]:
    cases = list(CASES.values())
    return dict(
        zip(CASES, spark_finds(spark, cases, tmp_path_factory.mktemp("cases")), strict=True)
    )


@pytest.mark.parametrize("name", CASES)
def test_history_has_its_known_anomalies(name, found):
    case = CASES[name]
    expected = {key: value for key, value in case["expect"].items() if value != []}
    if case["check"] == "all":
        assert found[name] == ({} if expected == {"*": "no errors"} else expected)
    else:
        assert {key: found[name].get(key, []) for key in case["check"]} == {
            key: expected.get(key, []) for key in case["check"]
        }


@pytest.mark.parametrize("name", CASES)
def test_oracle_agrees_with_the_known_histories(name, found):
    assert _differences([CASES[name]], [found[name]]) == []


@pytest.mark.parametrize("name", CASES)
def test_jepsens_definitions_agree_with_the_known_histories(name, found):
    assert jepsen_definitions.differences([CASES[name]], [found[name]]) == []


def test_spark_and_both_oracles_agree_on_random_histories(spark, tmp_path):
    occurred: Counter[str] = Counter()
    clean = 0
    for batch, size in enumerate(_batches()):
        cases = draw_histories(size, batch=batch)
        # Every third batch is without `ww_deps`.
        ww_deps = batch % 3 != 1
        found = spark_finds(spark, cases, tmp_path, ww_deps=ww_deps)
        different = _differences(cases, found, ww_deps=ww_deps)
        if different:
            smallest = _shrunk(spark, different, tmp_path, ww_deps=ww_deps)
            by_spark = spark_finds(spark, [smallest], tmp_path, ww_deps=ww_deps)[0]
            pytest.fail(
                f"{len(different)} of {size} histories differ (seed {SEED}, batch {batch}). "
                f"The smallest:\n{json.dumps(smallest)}\n"
                f"Spark: {_as_text(by_spark)}\noracle: {_as_text(_oracle(smallest, ww_deps))}"
            )
        differ = jepsen_definitions.differences(cases, found, ww_deps=ww_deps)
        assert not differ, f"{len(differ)} of {size} differ from Jepsen's: {min(differ, key=len)}"
        occurred.update(kind for kinds in found for kind in kinds)
        clean += sum(not kinds.keys() - {"unseen-series"} for kinds in found)
    print(f"{HISTORIES} histories: {dict(occurred)}")  # noqa: T201  ci/histories shows it
    # The histories are useful only if each anomaly occurs, and some have none.
    for anomaly in _kinds():
        assert occurred[anomaly] > HISTORIES / 500, occurred
    assert clean > HISTORIES / 20


def _kinds() -> list[str]:
    from ackproof_spark.jepsen.tables import HistoryAnomaly

    return [anomaly.value for anomaly in HistoryAnomaly]


def _batches() -> list[int]:
    full, rest = divmod(HISTORIES, BATCH)
    return [BATCH] * full + [rest] * bool(rest)


def _differences(
    cases: Sequence[dict], found: Sequence[dict], *, ww_deps: bool = True
) -> list[dict]:
    return [
        case
        for case, by_spark in zip(cases, found, strict=True)
        if _as_text(by_spark) != _as_text(_oracle(case, ww_deps))
    ]


def _oracle(case: dict, ww_deps: bool) -> dict:
    found = anomalies(case, ww_deps=ww_deps)
    transactions = [op for op in case["ops"] if "mops" in op and op["type"] == "ok"]
    if transactions and all("time" in op for op in transactions):
        found["unseen-series"] = unseen_series(case)
    return found


def _as_text(found: dict) -> str:
    """Return anomalies as text that does not depend on their order."""
    return json.dumps(
        {kind: sorted(map(json.dumps, evidence)) for kind, evidence in sorted(found.items())}
    )


def _shrunk(spark, different: list[dict], folder: Path, *, ww_deps: bool) -> dict:
    """Return a history that differs, and does not if any part is left out."""
    smallest = min(different, key=lambda case: len(json.dumps(case)))
    while True:
        smaller = list(_one_less(smallest))
        found = spark_finds(spark, smaller, folder, ww_deps=ww_deps)
        different = _differences(smaller, found, ww_deps=ww_deps)
        if not different:
            return smallest
        smallest = min(different, key=lambda case: len(json.dumps(case)))


def _one_less(case: dict):
    """Return the history without an operation, a micro-operation, a polled record."""
    for number in range(len(case["ops"])):
        shorter = json.loads(json.dumps(case))
        del shorter["ops"][number]
        yield shorter
        for index, mop in enumerate(case["ops"][number].get("mops", [])):
            shorter = json.loads(json.dumps(case))
            del shorter["ops"][number]["mops"][index]
            yield shorter
            for key, records in mop.get("poll", {}).items():
                for record in range(len(records)):
                    shorter = json.loads(json.dumps(case))
                    del shorter["ops"][number]["mops"][index]["poll"][key][record]
                    yield shorter
