"""Settings are in force if brokers describe them so."""

from __future__ import annotations

from ackproof.cluster.preflight import differences, meant_for


def test_a_setting_in_force_is_described_as_it_was_given() -> None:
    wanted = {"a": 1, "b": True, "c": "x, y", "d": 0.50, "ssl.key.password": "secret"}
    described = {"a": "1", "b": "true", "c": "x,y", "d": "0.5"}
    assert list(differences(1, wanted, described)) == []


def test_an_unknown_key_and_another_value_are_named() -> None:
    assert list(differences(2, {"a": 1, "b": "x"}, {"a": "2"})) == [
        "broker 2 has a=2 instead of 1",
        "broker 2 does not know the setting b",
    ]


def test_a_key_of_another_version_is_not_asked_for() -> None:
    settings = {"zookeeper.session.timeout.ms": 18000, "num.io.threads": 4, "no.such.setting": 1}
    assert set(meant_for("4.3.1", settings)) == {"num.io.threads", "no.such.setting"}
    assert set(meant_for("2.6.2", settings)) == set(settings)
