"""Makes the setups of an audit: for each topic and producer, one for each unstated value.

Values follow Kafka's precedence: the topic's setting, the brokers' setting, the version's default.
If a setting decides about acked records and has no value, there is a setup for each possible value,
and `Setup.when` has the value. So every answer names the assumptions on which it depends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain, product

from ackproof import safer_settings
from ackproof.audit.assumption import Versions, When
from ackproof.audit.failure import Failure, emptied
from ackproof.audit.producers import ProducerSettings, producers, whole
from ackproof.errors import ScenarioError
from ackproof.kafka_versions import (
    KRAFT_SINCE,
    LAST_WITH_ZOOKEEPER,
    RELEASES,
    ZOOKEEPER_UNTIL,
    Era,
    eras,
    numbers,
)
from ackproof.own_config.configuration import (
    Client,
    Given,
    NoFile,
    OwnConfig,
    Settings,
    Topic,
    kafka_default,
    of_kafka,
)
from ackproof.scenario.kafka_keys import ignored
from ackproof_model.configuration import OLDEST, Configuration, Profile, Reader
from ackproof_model.kafka_settings import (
    AUTO_LEADER_REBALANCE_ENABLE,
    DEFAULT_REPLICATION_FACTOR,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FLUSH_MESSAGES,
    LOG_FLUSH_INTERVAL_MESSAGES,
    MIN_INSYNC_REPLICAS,
    REPLICA_LAG_TIME_MAX_MS,
    REPLICATION_FACTOR,
    SESSION_TIMEOUTS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

REPLICAS = REPLICATION_FACTOR
MINIMUM = MIN_INSYNC_REPLICAS
UNCLEAN = UNCLEAN_LEADER_ELECTION_ENABLE
KAFKA = "kafka.version"
MODE = "kafka.mode"
ELR = ELIGIBLE_LEADER_REPLICAS_VERSION
RACKS = "racks"
STORAGE = safer_settings.STORAGE

#: The topic that stands for those that no file names.
ANY_TOPIC = Topic(name="")

#: A topic's name of a setting, and the brokers'.
_FLUSHES = (FLUSH_MESSAGES, LOG_FLUSH_INTERVAL_MESSAGES)
#: Values of a replication factor, and of min.insync.replicas, that nobody states.
_USUAL_REPLICAS, _USUAL_MINIMA = (1, 2, 3), (1, 2)


@cache
def eras_of(mode: str, releases: tuple[str, ...] = RELEASES) -> tuple[Era, ...]:
    """Return the sets of rules by which records are lost or clients behave differently.

    mode: `zookeeper`, `kraft`, or '' if it is not stated.
    """
    if mode != "zookeeper":
        return eras(_rules, releases)
    kept = [one for one in releases if numbers(one) < ZOOKEEPER_UNTIL]
    last = _line(LAST_WITH_ZOOKEEPER)
    return tuple(
        replace(era, release=LAST_WITH_ZOOKEEPER)
        if _line(era.since) <= last <= _line(str(era.until))
        else era
        for era in eras(_with_zookeeper, kept, ended=True)
    )


def _rules(release: str) -> Profile:
    """Return the rules on which answers of an audit depend.

    Rules of transactions and their offsets, lengths of timers, and an epoch that only orders two
    shrinks are left out. A new rule of `Profile` is included by default, so that the versions with
    it become an era of their own.
    """
    ignored = Profile.not_read_by(Reader.AUDIT)
    defaults = {rule.name: rule.default for rule in fields(Profile) if rule.name in ignored}
    return replace(Profile.of(release), **defaults)  # type: ignore[arg-type]


def _with_zookeeper(release: str) -> Profile:
    """Return the rules of a version's brokers in ZooKeeper mode."""
    own = _rules(release)
    return own if own.zookeeper else replace(_rules(LAST_WITH_ZOOKEEPER), hw_freeze=own.hw_freeze)


_Version = tuple[str, bool, When]
"""A release, whether it runs with ZooKeeper, and `Setup.when`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A topic with its producer and consumers, all of whose decisive settings have a value.

    partition: the settings that the model reads, including brokers and version. when: the assumed
    values of unstated settings. settings: the stated ones that decide, with their sources. racks:
    the number of racks over which replicas are spread, 0 without racks. balanced: whether the
    preferred replica is elected by itself after its broker has returned. flushes_every_record:
    whether a log is flushed before the ack. defaults_hold: whether settings that the topic and the
    brokers omit have Kafka's defaults. refusal: why the producer's library refuses its settings; ''
    if it accepts them. recreates: whether no volume holds the logs of brokers. emptied: the
    failures after which their logs are therefore empty.
    """

    own: OwnConfig
    topic: Topic
    producer: Client | None
    consumers: tuple[Client, ...]
    partition: Configuration
    when: When = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    zookeeper: bool = False
    controllers: int = 0
    combined: bool = False
    racks: int = 0
    balanced: bool = False
    flushes_every_record: bool = False
    defaults_hold: bool = True
    refusal: str = ""
    recreates: bool = False
    emptied: frozenset[Failure] = frozenset()


def setups(own: OwnConfig, *, topic: str = "") -> Iterator[tuple[Setup, ...]]:
    """Yield the setups of each topic and producer.

    topic: only the topic of this name. Raises ScenarioError if there is none, or for a version that
    is not modelled.
    """
    return chain.from_iterable(of_topics(own, topics_of(own, topic)))


def topics_of(own: OwnConfig, name: str = "") -> list[Topic]:
    """Return the topics to answer for, with one for all topics if no file names one.

    name: only the topic of this name. Raises ScenarioError if there is none.
    """
    topics = [one for one in own.topics if (one.name == name if name else not hidden(one))]
    if name and not topics:
        names = ", ".join(sorted(one.name for one in own.topics)) or "none"
        raise ScenarioError(f"no file has a topic {name!r}", hint=f"The files have: {names}.")
    named = bool(name) or any(not one.internal for one in topics)
    return topics if named else [ANY_TOPIC, *topics]


def of_topics(own: OwnConfig, topics: Iterable[Topic]) -> Iterator[tuple[tuple[Setup, ...], ...]]:
    """Yield the setups of each of these topics, by producer.

    Their own topics are this one and those of the brokers.
    """
    versions, written = tuple(_versions(own)), _Written()
    brokers_own = tuple(filter(hidden, own.topics))
    for one in topics:
        alone = (one,) * bool(one.name)
        others = (other for other in brokers_own if other is not one)
        of_one = replace(own, topics=(*alone, *others))
        yield tuple(
            tuple(_of(of_one, one, producer, versions, written)) for producer in writers(own, one)
        )


class _Written:
    """The settings in force of each producer with each version of brokers, computed once."""

    def __init__(self) -> None:
        self._known: list[tuple[Client | None, dict[str, tuple[ProducerSettings, ...]]]] = []

    def by(self, producer: Client | None, kafka: str) -> tuple[ProducerSettings, ...]:
        known = next((of for one, of in self._known if one is producer), None)
        if known is None:
            known = {}
            self._known.append((producer, known))
        if kafka not in known:
            known[kafka] = tuple(producers(producer, kafka))
        return known[kafka]


def writers(own: OwnConfig, topic: Topic) -> Sequence[Client | None]:
    """Return the producers of a topic, None if no file has one.

    A producer that is limited to one topic writes only this topic. The producers of a framework
    alone write the topics that it creates.
    """
    only = [one for one in own.producers if one.writes and one.writes == topic.name]
    others = [
        one for one in own.producers if not one.writes and topic.framework in ("", one.framework)
    ]
    return only or others or [None]


def hidden(topic: Topic) -> bool:
    """Whether a topic is internal to brokers: it has no answer, but its settings matter."""
    return topic.name.startswith("__")


def _of(
    own: OwnConfig,
    topic: Topic,
    producer: Client | None,
    versions: Sequence[_Version],
    written: _Written,
) -> Iterator[Setup]:
    flushed = topic.settings.get(_FLUSHES[0]) or own.broker.get(_FLUSHES[1])
    storage = Given(str(own.storage.holder), own.storage.source) if own.storage else None
    rebalances, racks_of, without_volume = _rebalances(own), _racks(own), emptied(own.storage)
    for (kafka, zookeeper, of_version), factor in product(versions, tuple(_replicas(own, topic))):
        combinations = product(
            tuple(_minima(own, topic, kafka, factor[0])),
            tuple(_unclean(own, topic, kafka, zookeeper=zookeeper)),
            written.by(producer, kafka),
            racks_of,
        )
        for minimum, unclean, writes, racks in combinations:
            stated = {
                REPLICAS: factor[1],
                MINIMUM: minimum[1],
                UNCLEAN: unclean[1],
                **({_FLUSHES[1]: flushed} if flushed else {}),
                **({STORAGE: storage} if storage else {}),
                **({AUTO_LEADER_REBALANCE_ENABLE: rebalances} if rebalances else {}),
                **writes.settings,
            }
            yield Setup(
                own=own,
                topic=topic,
                producer=writes.client or producer,
                consumers=own.consumers,
                partition=_configuration(
                    own,
                    kafka,
                    writes,
                    replicas=factor[0],
                    minimum=minimum[0],
                    unclean=None if of_kafka(unclean[1].source) else unclean[0] == 1,
                    zookeeper=zookeeper,
                ),
                when={
                    **of_version,
                    **factor[2],
                    **minimum[2],
                    **unclean[2],
                    **writes.when,
                    **racks[2],
                },
                settings={
                    key: one for key, one in stated.items() if one.source is not NoFile.ASSUMED
                },
                zookeeper=zookeeper,
                controllers=own.controllers.value if own.controllers else 0,
                combined=own.combined is not None,
                racks=racks[0],
                balanced=rebalances is None or rebalances.value.lower() != "false",
                flushes_every_record=flushed is not None and flushed.value.strip() == "1",
                defaults_hold=_defaults_hold(own, topic),
                refusal=writes.refusal,
                recreates=bool(without_volume),
                emptied=without_volume,
            )


def _configuration(
    own: OwnConfig,
    kafka: str,
    writes: ProducerSettings,
    *,
    replicas: int,
    minimum: int,
    unclean: bool | None,
    zookeeper: bool,
) -> Configuration:
    brokers = own.brokers.value if own.brokers else 0
    level = own.broker.get(ELR)
    session = own.broker.get(SESSION_TIMEOUTS[zookeeper])
    lag, session_s = _seconds(own.broker.get(REPLICA_LAG_TIME_MAX_MS)), _seconds(session)
    return Configuration(
        kafka_version=kafka,
        acks=writes.acks,
        idempotence=writes.idempotence and not writes.refusal,
        retries=writes.retries,
        max_in_flight=writes.max_in_flight,
        replication_factor=replicas,
        min_insync_replicas=minimum,
        unclean_leader_election=unclean,
        replica_lag_time_max_s=lag,
        session_timeout_s=session_s,
        delivery_timeout_s=writes.delivery_timeout_ms / 1000,
        brokers=brokers if brokers >= replicas else None,
        elr=None if level is None else level.value.strip() not in ("", "0"),
    )


def _rebalances(own: OwnConfig) -> Given | None:
    """Return whether the preferred replica is elected by itself; None for Kafka's default, true.

    With KRaft the controllers' value decides.
    """
    return (own.controller or own.broker).get(AUTO_LEADER_REBALANCE_ENABLE)


def unread(setup: Setup) -> Iterator[str]:
    """Yield a sentence for each stated setting that Kafka does not read under these rules."""
    own, topic, profile = setup.own, setup.topic, setup.partition.profile
    unclean = topic.settings.get(UNCLEAN) or own.broker.get(UNCLEAN)
    stated = unclean is not None and unclean.value.lower() == "true"
    if unclean and stated and not setup.zookeeper and not profile.unclean_by_setting:
        yield (
            f"{unclean.source}: {UNCLEAN}=true: with KRaft Kafka 3.3 to 3.8 does not read it "
            "(KAFKA-12670); an election requested with kafka-leader-election is unclean as ever"
        )
    elif unclean and UNCLEAN in setup.when and UNCLEAN not in topic.settings and unclean.value:
        yield (
            f"{unclean.source}: {UNCLEAN}={unclean.value}: with KRaft it is read from the topic, a "
            "dynamic setting of all brokers or controllers' files, not from brokers' files"
        )
    minimum = own.broker.get(MINIMUM)
    if minimum and whole(minimum, 0) and MINIMUM in setup.when and MINIMUM not in topic.settings:
        yield (
            f"{minimum.source}: {MINIMUM}={minimum.value}: with eligible leader replicas (KIP-966, "
            "on by default from Kafka 4.1) it is read from the topic or from controllers' files, "
            "not from brokers' files"
        )


def _seconds(given: Given | None) -> float | None:
    milliseconds = whole(given, 0)
    return milliseconds / 1000 if milliseconds else None


def _defaults_hold(own: OwnConfig, topic: Topic) -> bool:
    return own.defaults_hold or topic.in_force


def _effective(
    own: OwnConfig, topic: Topic, key: str, default: Given, *, kafka: str, zookeeper: bool = False
) -> Given | None:
    """Return a setting by Kafka's precedence; None if a file that was not given may have it."""
    stated = topic.settings.get(key) or own.of_nodes(key, kafka, zookeeper=zookeeper)
    return stated or (default if _defaults_hold(own, topic) else None)


_Assumed = tuple[int, Given, When]
"""A number, its origin, and `Setup.when`."""


def _replicas(own: OwnConfig, topic: Topic) -> Iterator[_Assumed]:
    """Yield the replication factors; topics that brokers create have the brokers' default."""
    given = topic.replication_factor
    if given is None and not topic.name:
        given = own.broker.get(DEFAULT_REPLICATION_FACTOR)
    if given and (number := whole(given, 0)):
        yield number, given, {}
        return
    most = own.brokers.value if own.brokers else max(_USUAL_REPLICAS)
    if most == 1 and own.brokers:
        yield 1, Given("1", own.brokers.source), {}  # one broker has one replica of each topic
        return
    for number in _USUAL_REPLICAS:
        if number <= most:
            yield number, Given(str(number), NoFile.ASSUMED), {REPLICAS: str(number)}


def _racks(own: OwnConfig) -> Sequence[_Assumed]:
    """Return the number of racks.

    A label of Kubernetes nodes stands for their zones: it is assumed that there are two or three.
    """
    values = {given.value: given for given in own.racks.values()}
    if label := next((given for value, given in values.items() if "/" in value), None):
        return [(number, label, {RACKS: str(number)}) for number in (2, 3)]
    return [(len(values), Given(str(len(values)), NoFile.ASSUMED), {})]


def _minima(own: OwnConfig, topic: Topic, kafka: str, replicas: int) -> Iterator[_Assumed]:
    """Yield min.insync.replicas.

    With eligible leader replicas (KIP-966) a cluster takes its value from its controllers' files.
    So a file of a node that is a broker only does not decide, unless a running broker answered.
    """
    default = Given("1", kafka_default(kafka))
    elr = Profile.of(kafka).elr and not own.in_force and MINIMUM not in topic.settings
    brokers_only = elr and own.brokers_only
    given = _effective(own, topic, MINIMUM, default, kafka=kafka)
    number = whole(given, 0)
    if not number:
        for one in _USUAL_MINIMA:
            if one <= replicas:
                yield one, Given(str(one), NoFile.ASSUMED), {MINIMUM: str(one)}
    elif number == 1 or own.controller or MINIMUM in own.dynamic or not brokers_only:
        yield number, given or default, {}
    else:
        for one in (1, number):
            stated = given if given and one == number else Given("1", NoFile.ASSUMED)
            yield one, stated, {MINIMUM: str(one)}


def _unclean(own: OwnConfig, topic: Topic, kafka: str, *, zookeeper: bool) -> Iterator[_Assumed]:
    """Yield 1 where unclean elections are enabled, else 0.

    With KRaft the controllers' value applies (`ConfigurationControlManager`). Without their file,
    the value of nodes that are only brokers does not decide, even if running brokers answered.
    """
    default = Given(str(Profile.of(kafka).unclean_by_default).lower(), kafka_default(kafka))
    if not zookeeper and own.brokers_only and not own.controller:
        given = topic.settings.get(UNCLEAN) or own.dynamic.get(UNCLEAN)
    else:
        given = _effective(own, topic, UNCLEAN, default, kafka=kafka, zookeeper=zookeeper)
    if given is None or not given.value:
        for value in ("false", "true"):
            yield value == "true", Given(value, NoFile.ASSUMED), {UNCLEAN: value}
    else:
        value = given.value.lower()
        yield value == "true", Given(value, given.source), {}


def _versions(own: OwnConfig) -> Iterator[_Version]:
    """Yield the versions, each with the modes that it may run in.

    If the mode is not stated and a version has both modes, the mode is named for all versions.
    """
    versions, mode = [*_releases(own)], _mode(own)
    both = [KRAFT_SINCE <= _line(release) < ZOOKEEPER_UNTIL for release, _ in versions]
    for (release, when), either in zip(versions, both, strict=True):
        of_version = Profile.of(release).zookeeper
        for zookeeper in (False, True) if either else (of_version,):
            name = "zookeeper" if zookeeper else "kraft"
            if mode in ("", name) or not either:
                named = {MODE: name} if any(both) and not mode else {}
                yield release, mode == "zookeeper" if mode else zookeeper, {**when, **named}


def _releases(own: OwnConfig) -> Iterator[tuple[str, When]]:
    """Yield the stated version, or one version for each set of rules that is possible."""
    if own.kafka is not None:
        release = own.release
        try:
            numbers(release), Profile.of(release)
        except ValueError as error:
            raise ScenarioError(f"{own.kafka.source}: {error}") from None
        yield release, {}
        return
    for era in _possible(own):
        yield era.release, {KAFKA: Versions(((era.since, era.until or ""),))}


def _mode(own: OwnConfig) -> str:
    return own.mode.value if own.mode else ""


def _possible(own: OwnConfig) -> Sequence[Era]:
    """Return the eras that the files allow: by the mode, and by what only some versions know."""
    possible = eras_of(_mode(own))
    since = _line(own.since.value) if own.since else OLDEST[:2]
    below = _line(own.below.value) if own.below else (math.inf,)
    if _mode(own) == "kraft":
        since = max(since, KRAFT_SINCE)
    allowed = [
        era
        for era in possible
        if (era.until is None or _line(era.until) >= since) and _line(era.since) < below
    ]
    known = [
        era for era in allowed if not any(ignored("broker", key, era.release) for key in own.broker)
    ]
    return known or allowed or possible[-1:]


def _line(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; no set of rules begins within a line."""
    return tuple(map(int, version.split(".")[:2]))
