"""What clients have read back is compared with what the scenario takes it to be."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ackproof.clients.process import ProducerProcess
from ackproof.clients.supervisor import ClientSupervisor, differences
from ackproof.scenario.loader import validate
from support.client_specs import producer_spec
from support.run_directories import small

IN_FORCE = {"acks": "all", "retries": 2147483647, "enable.idempotence": True}


@pytest.fixture
def spec(tmp_path):
    return producer_spec(tmp_path, 3, java="3.9.1")


SCENARIO = validate(small(workload={"client": {"java": "3.9.1"}, "settings": {}}))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"acks": "1"}, ['producer 3 works with acks="1", and the prediction took it to be "all"']),
        ({"enable.idempotence": None}, ["producer 3 works with enable.idempotence=null"]),
        ({"transaction.protocol": 1}, []),  # the client is of 3.9
        ({"transaction.protocol": 2}, ["producer 3 works with transaction.protocol=2"]),
    ],
)
def test_what_differs_is_told(spec, changed, expected):
    spec.in_force.write_text(json.dumps(IN_FORCE | changed))
    actual = differences(spec, SCENARIO)
    assert len(actual) == len(expected)
    assert all(one.startswith(begin) for one, begin in zip(actual, expected, strict=True))


def test_a_producer_that_never_had_settings_differs_in_nothing(spec):
    assert differences(spec, SCENARIO) == []


def test_a_difference_is_a_trouble_of_the_run(spec, tmp_path):
    supervisor = ClientSupervisor(SCENARIO, tmp_path, bootstrap_servers="", secrets={})
    producer = ProducerProcess(spec)
    supervisor.producers.append(producer)
    supervisor.expect_end(producer)
    spec.in_force.write_text(json.dumps(IN_FORCE))
    assert supervisor.other_settings() == []
    spec.in_force.write_text(json.dumps(IN_FORCE | {"retries": 0}))
    (trouble,) = supervisor.other_settings()
    assert "producer 3 works with retries=0" in trouble


def test_another_librdkafka_than_the_scenarios_is_told(spec):
    own = dataclasses.replace(spec, java=None, librdkafka="2.3.0")
    own.in_force.write_text('{"librdkafka": "2.3.0"}')
    assert differences(own, SCENARIO) == []
    own.in_force.write_text('{"librdkafka": "2.16.0"}')
    assert differences(own, SCENARIO) == [
        "producer 3 works with librdkafka 2.16.0, and the scenario has 2.3.0"
    ]
    assert differences(dataclasses.replace(own, librdkafka=None), SCENARIO) == []
