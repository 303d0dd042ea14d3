"""The texts of origins, which `audit --json` prints as the source of a value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof.audit.finding import of_answer
from ackproof.own_config.configuration import (
    JAVA_CLIENT,
    Default,
    FileLine,
    NoFile,
    Option,
    Origin,
    Running,
    kafka_default,
)
from support.audits import MINIMUM, audit, orders, risk


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (FileLine("server.properties", 4), "server.properties:4"),
        (Option("--kafka"), "--kafka"),
        (Running("host:9092"), "host:9092"),
        (Running("host:9092", "broker 3"), "broker 3 at host:9092"),
        (kafka_default("4.3.1"), "default of Kafka 4.3.1"),
        (kafka_default(), "default of Kafka"),
        (Default(JAVA_CLIENT, "before 3.0"), "default of the Java client before 3.0"),
        (NoFile.UNSTATED, "not stated"),
        (NoFile.ASSUMED, ""),
        (NoFile.CHANGED, "changed"),
        (NoFile.CHOSEN, "the audit"),
    ],
)
def test_an_origin_has_the_text_that_reports_print(origin: Origin, text: str) -> None:
    assert str(origin) == f"{origin}" == text


def test_a_port_of_a_running_cluster_is_no_line_of_a_file() -> None:
    asked = replace(MINIMUM, source=Running("host:9092", "broker 3"))
    answer = orders(risks=(risk(decided_by=(asked,)),), settings={}, producer="p.properties")
    [finding] = of_answer(answer, audit(answer))
    assert (finding.file, finding.line) == ("p.properties", 1)
