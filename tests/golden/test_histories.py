"""Histories: Jepsen's cases, hand-made ones, and Spark against two oracles on random ones.

One oracle was written from Jepsen's source; the other, for the anomalies that Jepsen's checker
lacks and the evidence of cycles, from this project's document of anomalies.

`ACKPROOF_HISTORIES=10000 pytest tests/golden/test_histories.py` (`ci/lab/histories`) raises the
number of random histories.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from golden import history_oracle, jepsen_definitions
from golden.jepsen_definitions import as_text
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
def together(spark, tmp_path_factory) -> list[dict]:
    """What Spark finds in the known histories and the first batch of random ones, asked once."""
    cases = [*CASES.values(), *draw_histories(_batches()[0], batch=0)]
    return spark_finds(spark, cases, tmp_path_factory.mktemp("cases"))


@pytest.fixture(scope="module")
def found(together) -> dict[str, dict]:
    return dict(zip(CASES, together, strict=False))


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


def test_spark_and_both_oracles_agree_on_random_histories(spark, together, tmp_path):
    occurred: Counter[str] = Counter()
    clean = 0
    for batch, size in enumerate(_batches()):
        cases = draw_histories(size, batch=batch)
        # Every third batch is without `ww_deps`.
        ww_deps = batch % 3 != 1
        found = (
            spark_finds(spark, cases, tmp_path, ww_deps=ww_deps)
            if batch
            else together[len(CASES) :]
        )
        different = _differences(cases, found, ww_deps=ww_deps)
        different += jepsen_definitions.differences(cases, found, ww_deps=ww_deps)
        assert not different, (
            f"{len(different)} differences in {size} histories (seed {SEED}, batch {batch}). The "
            f"smallest:\n{min(different, key=len)}"
        )
        occurred.update(kind for kinds in found for kind in kinds)
        clean += sum(not kinds.keys() - {"unseen-series"} for kinds in found)
    print(f"{HISTORIES} histories: {dict(occurred)}")  # noqa: T201  ci/lab/histories shows it
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
) -> list[str]:
    """Return the histories for which ackproof and our own oracle differ."""
    differ = []
    for case, by_spark in zip(cases, found, strict=True):
        expected = history_oracle.anomalies(case, ww_deps=ww_deps)
        transactions = [op for op in case["ops"] if "mops" in op and op["type"] == "ok"]
        if transactions and all("time" in op for op in transactions):
            expected["unseen-series"] = history_oracle.unseen_series(case)
        kinds = by_spark.keys() & {*history_oracle.KINDS, "unseen-series"}
        ours = as_text({kind: by_spark[kind] for kind in kinds})
        if ours != as_text(expected):
            differ.append(f"{json.dumps(case)}\nours {ours}\noracle {as_text(expected)}")
    return differ


def test_each_anomaly_has_an_oracle() -> None:
    assert {*history_oracle.KINDS, *jepsen_definitions.NAMES} == set(_kinds())
