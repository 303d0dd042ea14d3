"""Settings are in force if brokers describe them so."""

from __future__ import annotations

from ackproof.cluster.preflight import differences, meant_for


def test_equal_settings_have_no_differences() -> None:
    wanted = {"a": 1, "b": True, "c": "x, y", "d": 0.50, "ssl.key.password": "secret"}
    described = {"a": "1", "b": "true", "c": "x,y", "d": "0.5"}
    assert list(differences(1, wanted, described)) == []


def test_unknown_keys_and_different_values_are_reported() -> None:
    assert list(differences(2, {"a": 1, "b": "x"}, {"a": "2"})) == [
        "broker 2 has a=2 instead of 1",
        "broker 2 does not know the setting b",
    ]


def test_keys_of_other_versions_are_not_compared() -> None:
    settings = {"zookeeper.session.timeout.ms": 18000, "num.io.threads": 4, "no.such.setting": 1}
    assert set(meant_for("4.3.1", settings)) == {"num.io.threads", "no.such.setting"}
    assert set(meant_for("2.6.2", settings)) == set(settings)
