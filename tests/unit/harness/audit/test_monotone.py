"""A weaker setting never makes an answer better: it removes no loss, and no loss becomes rarer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ackproof.audit import auditing, diff
from ackproof.audit.answer import Audit, Difference, Effect, Measure, NoEffect, Risk
from ackproof.audit.auditing import answered, audit_clusters, loses_more
from ackproof.audit.changes import best
from ackproof.audit.diff import difference
from ackproof.audit.failure import Failure, covers
from ackproof.audit.finding import grown
from ackproof.audit.request import Request, audit
from ackproof.audit.risk import Subject
from ackproof.audit.risks import of_subject, stale_fetch
from ackproof.audit.setups import Setup, setups
from ackproof.own_config.configuration import Client, Given, Holder, OwnConfig, Storage, Topic
from support import sampling
from support.origins import at

CASES = Path(__file__).parents[3] / "data" / "cases"
#: Versions that differ in their rules of elections, fetches and truncation, with their modes.
VERSIONS = (
    ("2.3.1", "zookeeper"),
    ("2.8.1", "zookeeper"),
    ("3.5.2", "kraft"),
    ("3.5.2", "zookeeper"),
    ("3.8.1", "kraft"),
    ("3.9.0", "kraft"),
    ("3.9.0", "zookeeper"),
    ("3.9.1", "kraft"),
    ("4.0.0", "kraft"),
    ("4.1.1", "kraft"),
)


def configuration(
    kafka: str, mode: str, *, replicas: int, minimum: int, acks: str = "all", unclean: bool = False
) -> OwnConfig:
    settings = {
        "min.insync.replicas": str(minimum),
        "unclean.leader.election.enable": str(unclean).lower(),
    }
    producer = {"acks": acks, "enable.idempotence": str(acks == "all").lower()}
    return OwnConfig(
        kafka=Given(kafka, at("compose.yml:1")),
        mode=Given(mode, at("compose.yml:2")),
        topics=(
            Topic(
                name="orders",
                replication_factor=Given(str(replicas), at("topic:1")),
                settings={key: Given(value, at("topic:2")) for key, value in settings.items()},
            ),
        ),
        producers=(
            Client(
                name="p",
                library="java",
                settings={key: Given(value, at("p:1")) for key, value in producer.items()},
            ),
        ),
    )


def setup(kafka: str, mode: str, **settings: Any) -> Setup:
    [[only]] = setups(configuration(kafka, mode, **settings))
    return only


def losses(one: Setup) -> list[Risk]:
    return [risk for risk in answered([one]).of(0) if risk.effect is Effect.LOST]


def lost_without(weaker: Setup, stronger: Setup) -> list[str]:
    """Return the sets of failures that lose under the stronger settings only, but for rare ones.

    A third replica may have missed an epoch (B56), and with eligible leader replicas a removed one
    may be elected (B57).
    """
    weak = losses(weaker)
    return [
        "+".join(risk.failures)
        for risk in losses(stronger)
        if not (risk.rare and risk.case in ("B56", "B57"))
        and not any(covers(one.failures, risk.failures) for one in weak)
    ]


@pytest.mark.parametrize(("kafka", "mode"), VERSIONS)
def test_unclean_elections_remove_no_loss(kafka: str, mode: str) -> None:
    """With as many in-sync replicas as replicas, each replica has every acked record.

    Then an unclean election helps if the last member of the ISR loses its log.
    """
    for replicas, acks in product((1, 2, 3), ("all", "1")):
        for minimum in range(1, replicas + 1):
            clean = setup(kafka, mode, replicas=replicas, minimum=minimum, acks=acks)
            unclean = setup(
                kafka, mode, replicas=replicas, minimum=minimum, acks=acks, unclean=True
            )
            helped = {"lag+power_loss", "lag+disk_replaced"} if minimum == replicas else set()
            assert helped.issuperset(lost_without(unclean, clean)), (replicas, minimum, acks)


def test_the_grid_finds_a_loss_that_unclean_elections_hide(monkeypatch) -> None:
    """The control: B12 only with clean elections, as if one rule excluded the other."""

    def hidden(subject: Subject) -> list[Callable[[Setup], Iterator[Risk]]]:
        def only_clean(one: Setup) -> Iterator[Risk]:
            return iter(()) if one.partition.unclean_election else stale_fetch.risks(one)

        every = of_subject(subject)
        return [only_clean if find is stale_fetch.risks else find for find in every]

    monkeypatch.setattr(auditing, "of_subject", hidden)
    with pytest.raises(AssertionError):
        test_unclean_elections_remove_no_loss("2.8.1", "zookeeper")


def test_clean_elections_lose_what_an_unclean_one_keeps() -> None:
    clean, unclean = (
        setup("3.9.1", "kraft", replicas=2, minimum=2, unclean=unclean) for unclean in (False, True)
    )
    assert lost_without(unclean, clean) == ["lag+power_loss", "lag+disk_replaced"]


@pytest.mark.parametrize("kafka", ["3.9.0", "4.0.0"])
def test_a_proposed_change_lets_no_further_failures_lose(kafka: str) -> None:
    """Clean elections alone would: so they come after eligible leader replicas."""
    before = setup(kafka, "kraft", replicas=2, minimum=2, unclean=True)
    steps = [*best([before], loses_more=loses_more)]
    assert [change.setting for change, _ in steps][:2] == [
        "kafka.version" if kafka == "3.9.0" else "eligible.leader.replicas.version",
        "unclean.leader.election.enable",
    ]
    for _, [after] in steps:
        more = lost_without(before, after)
        assert not more
        before = after


def test_clean_elections_are_proposed_first_where_they_only_help() -> None:
    [(change, _), *_] = best(
        [setup("2.8.1", "zookeeper", replicas=3, minimum=2, unclean=True)], loses_more=loses_more
    )
    assert change.setting == "unclean.leader.election.enable"


def compared(kafka: str, mode: str, before: dict[str, Any], **weaker: Any) -> Difference:
    own = [configuration(kafka, mode, **settings) for settings in (before, before | weaker)]
    audits = [audit_clusters([one]) for one in own]
    return difference(*audits, base="before")


#: One setting of three replicas, of which two must have a record, weakened.
_THREE = {"replicas": 3, "minimum": 2}
_WEAKER: tuple[dict[str, Any], ...] = (
    {"acks": "1"},
    {"acks": "0"},
    {"minimum": 1},
    {"replicas": 2},
    {"replicas": 1, "minimum": 1},
    {"unclean": True},
)


@pytest.mark.parametrize(("kafka", "mode"), VERSIONS)
@pytest.mark.parametrize("weaker", _WEAKER, ids=str)
def test_a_weaker_setting_is_not_green(kafka: str, mode: str, weaker: dict[str, Any]) -> None:
    found = compared(kafka, mode, _THREE, **weaker)
    if "unclean" in weaker and (kafka, mode) in (("3.5.2", "kraft"), ("3.8.1", "kraft")):
        assert not found.new
        assert not found.more
        assert [one.reason for one in found.without_effect] == [NoEffect.NOT_READ]
    else:
        lost = [one for one in found.new if one.risk.effect is Effect.LOST]
        assert lost or found.more
        assert not found.without_effect


@pytest.mark.parametrize(("kafka", "mode"), VERSIONS)
@pytest.mark.parametrize(
    ("holder", "restart_keeps"),
    [(Holder.POD, True), (Holder.POD, False), (Holder.CONTAINER, True), (Holder.CONTAINER, False)],
)
def test_a_log_that_loses_its_volume_is_not_green(
    kafka: str, mode: str, holder: Holder, restart_keeps: bool
) -> None:
    """Each new pod or container is then empty; a volume in its place makes nothing possible."""
    kept = Storage(
        holder=Holder.VOLUME, setting="volumes", value="data", source=at("compose.yml:3")
    )
    emptied = replace(kept, holder=holder, restart_keeps=restart_keeps)
    plain = configuration(kafka, mode, **_THREE)
    before, after = (
        audit_clusters([replace(plain, storage=storage)]) for storage in (kept, emptied)
    )
    lost = [
        one.risk.failures
        for one in difference(before, after, base="before").new
        if one.risk.effect is Effect.LOST
    ]
    assert any(set(failures) == {Failure.RECREATED} for failures in lost)
    back = difference(after, before, base="after")
    assert not [one for one in back.new if one.risk.effect is Effect.LOST]
    assert not back.more


@pytest.mark.parametrize("kafka", ["2.8.1", "4.0.0"])
@pytest.mark.parametrize(
    ("before", "weaker", "measure", "numbers"),
    [
        (_THREE, {"minimum": 1}, Measure.COPIES, (2, 1)),
        ({**_THREE, "acks": "1"}, {"acks": "0"}, Measure.COPIES, (1, 0)),
        ({**_THREE, "acks": "1"}, {"replicas": 2}, Measure.REPLICAS, (3, 2)),
        ({**_THREE, "acks": "1"}, {"unclean": True}, Measure.OUTSIDE, (0, 2)),
    ],
)
def test_more_records_are_at_risk_after_the_same_failures(
    kafka: str, before: Any, weaker: Any, measure: Measure, numbers: tuple[int, int]
) -> None:
    mode = "zookeeper" if kafka == "2.8.1" else "kraft"
    [growth] = compared(kafka, mode, before, **weaker).more
    assert growth.measure is measure
    assert (growth.before, growth.after) == numbers
    assert compared(kafka, mode, before | weaker, **before).more == ()


def test_a_sole_replica_that_is_moved_loses_what_it_acked_alone() -> None:
    found = compared("4.0.0", "kraft", {"replicas": 1, "minimum": 1}, acks="1")
    assert [one.risk.failures for one in found.new if one.risk.effect is Effect.LOST] == [
        (Failure.REASSIGNMENT,)
    ]


@pytest.mark.parametrize("kafka", ["2.8.1", "4.0.0"])
@pytest.mark.parametrize(
    ("before", "weaker", "reason"),
    [
        ({"replicas": 1, "minimum": 1}, {"unclean": True}, NoEffect.ONE_REPLICA),
        ({**_THREE, "acks": "1"}, {"minimum": 1}, NoEffect.ONLY_ACKS_ALL),
        ({"replicas": 2, "minimum": 2}, {"unclean": True}, NoEffect.EVERY_REPLICA),
    ],
)
def test_a_weaker_setting_without_effect_has_its_reason(
    kafka: str, before: Any, weaker: Any, reason: NoEffect
) -> None:
    mode = "zookeeper" if kafka == "2.8.1" else "kraft"
    found = compared(kafka, mode, before, **weaker)
    assert not found.more
    assert not [one for one in found.new if one.risk.effect is Effect.LOST]
    assert reason in [one.reason for one in found.without_effect]


def _weakenings(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each way to weaken one setting."""
    replicas, minimum, acks = settings["replicas"], settings["minimum"], settings["acks"]
    yield from ({"acks": weaker} for weaker in {"all": ("1", "0"), "1": ("0",)}.get(acks, ()))
    yield from ({"minimum": fewer} for fewer in range(1, minimum))
    yield from ({"replicas": fewer, "minimum": min(minimum, fewer)} for fewer in range(1, replicas))
    yield from [{"unclean": True}] * (not settings["unclean"])


def _grid() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    names = ("replicas", "acks", "unclean", "minimum")
    for (kafka, mode), *values in product(
        VERSIONS, (1, 2, 3), ("all", "1", "0"), (False, True), (1, 2, 3)
    ):
        settings = dict(zip(names, values, strict=True))
        if settings["minimum"] <= settings["replicas"]:
            for weaker in _weakenings(settings):
                yield kafka, mode, settings, weaker


def test_every_weakening_fails_or_has_its_reason() -> None:
    """1,260 pairs of configurations; one of twelve, by its name, without ACKPROOF_ALL_ADVICE."""
    drawn = [pair for pair in _grid() if sampling.drawn(str(pair), one_of=24)]
    assert drawn
    for kafka, mode, before, weaker in drawn:
        found = compared(kafka, mode, before, **weaker)
        fails = any(one.risk.effect is Effect.LOST for one in found.new) or bool(found.more)
        reasons = {one.reason for one in found.without_effect}
        assert fails or reasons - {NoEffect.SAME_RISKS}, (kafka, mode, before, weaker)


def test_the_grid_finds_a_weakening_that_is_green(monkeypatch) -> None:
    """The control: without what more records are at risk, the minimum 1 in place of 2 is green."""
    monkeypatch.setattr(diff, "growth", lambda *_: iter(()))
    found = compared("4.0.0", "kraft", _THREE, minimum=1)
    assert not found.new
    assert [one.reason for one in found.without_effect] == [NoEffect.SAME_RISKS]


_BROKERS = CASES / "min-kraft-three.properties"
_PRODUCER = "acks=all\nenable.idempotence={}\n"
_CONSUMER = "group.id=g\nenable.auto.commit={}\nauto.offset.reset={}\n"


def _racks(number: int) -> str:
    """Return a compose file with three brokers in so many racks; 0 for none stated."""
    services = "".join(
        f"  kafka-{one}:\n    image: apache/kafka:3.9.1\n    environment:\n"
        f"      KAFKA_NODE_ID: {one}\n      KAFKA_PROCESS_ROLES: broker,controller\n"
        f"      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093\n"
        f"      KAFKA_MIN_INSYNC_REPLICAS: 2\n      KAFKA_DEFAULT_REPLICATION_FACTOR: 3\n"
        + f"      KAFKA_BROKER_RACK: zone-{one % max(number, 1)}\n"
        * bool(number)
        for one in (1, 2, 3)
    )
    return f"services:\n{services}"


#: The files before and after a change, the effect that it makes possible, and whether it fails.
_CHANGES = {
    "no idempotence": (
        {"producer.properties": _PRODUCER.format("true")},
        {"producer.properties": _PRODUCER.format("false")},
        Effect.DUPLICATED,
        False,
    ),
    "no flush": (
        {"server.properties": f"{_BROKERS.read_text()}log.flush.interval.messages=1\n"},
        {"server.properties": _BROKERS.read_text()},
        Effect.LOST,
        True,
    ),
    "one rack": (
        {"compose.yml": _racks(3)},
        {"compose.yml": _racks(1)},
        Effect.LOST,
        True,
    ),
    "no rack stated": (
        {"compose.yml": _racks(3)},
        {"compose.yml": _racks(0)},
        Effect.LOST,
        True,
    ),
    "commits before processing": (
        {"consumer.properties": _CONSUMER.format("false", "earliest")},
        {"consumer.properties": _CONSUMER.format("true", "earliest")},
        Effect.UNPROCESSED,
        False,
    ),
    "skips without an offset": (
        {"consumer.properties": _CONSUMER.format("false", "earliest")},
        {"consumer.properties": _CONSUMER.format("false", "latest")},
        Effect.UNPROCESSED,
        False,
    ),
}


@pytest.mark.parametrize("name", _CHANGES)
def test_a_weaker_file_fails_for_losses_and_names_the_rest(tmp_path: Path, name: str) -> None:
    before, after, effect, fails = _CHANGES[name]
    for folder, files in (("before", before), ("after", after)):
        (tmp_path / folder).mkdir()
        beside = {"server.properties": _BROKERS.read_text(), "producer.properties": "acks=all\n"}
        for file, text in (files if "compose.yml" in files else beside | files).items():
            (tmp_path / folder / file).write_text(text)

    def audited(name: str, base: str, *fail_on: str) -> Audit:
        files, against = (tmp_path / name,), str(tmp_path / base)
        return audit(Request(files=files, kafka="3.9.1", against=against, fail_on=fail_on))

    weaker = audited("after", "before")
    assert effect in {one.risk.effect for one in weaker.difference.new}
    assert weaker.fails is fails
    assert audited("after", "before", "all").fails
    assert not audited("before", "after").fails


def test_a_change_that_lowers_the_minimum_fails_and_is_named(tmp_path: Path, snapshot) -> None:
    """The brokers' file and the producer's, as in a pull request."""
    for name, minimum in (("before", 2), ("after", 1)):
        folder = tmp_path / name
        folder.mkdir()
        settings = (CASES / "min-kraft-three.properties").read_text()
        settings = settings.replace("min.insync.replicas=2", f"min.insync.replicas={minimum}")
        (folder / "server.properties").write_text(settings)
        producer = (CASES / "min-producer.properties").read_text()
        (folder / "producer.properties").write_text(producer)

    def audited(name: str, base: str) -> Audit:
        files = (tmp_path / name,)
        return audit(Request(files=files, kafka="3.9.1", against=str(tmp_path / base)))

    weaker = audited("after", "before")
    assert weaker.fails
    [growth] = weaker.difference.more
    assert grown(growth) == snapshot
    assert not audited("before", "after").fails
