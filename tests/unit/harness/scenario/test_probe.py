"""The keys of the probe in a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ackproof.clients.scenario_specs import ClientSpecs
from ackproof.scenario.loader import validate
from ackproof.scenario.validation import PROBED_PARTITIONS
from ackproof_spark.tables import PROBE_PRODUCERS
from support.run_directories import small

SENDS = {"settings": {"acks": 1, "enable.idempotence": False}}


def scenario(**changes: Any) -> dict[str, Any]:
    topics = {"orders": {"partitions": 2}, "clicks": {"partitions": 1}}
    workload = {"probe": True, "beside": {"clicks": SENDS}, **SENDS}
    return small(**{"topics": topics, "workload": workload, **changes})


def test_each_written_partition_is_probed_with_acks_all_whatever_the_workload() -> None:
    specs = ClientSpecs(validate(scenario()), Path("runs/one"), bootstrap_servers="b:1").probe()
    assert specs is not None
    assert [(one.topic, one.partition) for one in specs.writers] == [
        ("orders", 0),
        ("orders", 1),
        ("clicks", 0),
    ]
    assert [one.number for one in specs.writers] == [PROBE_PRODUCERS + n for n in range(3)]
    assert {one.settings["acks"] for one in specs.writers} == {"all"}
    assert type(specs).from_json(specs.to_json()) == specs


def test_without_the_key_nothing_is_probed() -> None:
    document = scenario()
    del document["workload"]["probe"]
    assert ClientSpecs(validate(document), Path("one"), bootstrap_servers="b:1").probe() is None


def test_what_only_the_probe_measures_needs_it() -> None:
    document = scenario(expect={"read_availability": ">= 99%"})
    validate(document)
    document["workload"]["probe"] = False
    with pytest.raises(ValidationError, match=r"set workload\.probe to true"):
        validate(document)


def test_a_step_is_told_by_the_id_of_a_fault() -> None:
    document = scenario(expect={"steps": {"alone": {"readable": True}}})
    document["faults"] = [{"fault": "kill", "target": 1, "id": "alone"}]
    validate(document)
    document["faults"][0]["id"] = "first"
    with pytest.raises(ValidationError, match=r"there is no fault with this id \(first\)"):
        validate(document)


def test_too_many_partitions_are_refused() -> None:
    topics = {"orders": {"partitions": PROBED_PARTITIONS}, "clicks": {"partitions": 1}}
    with pytest.raises(ValidationError, match=f"they may be {PROBED_PARTITIONS} at most"):
        validate(scenario(topics=topics))
