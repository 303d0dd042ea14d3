"""The value of a setting that is in force, with its source: a file, or a default of a version."""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.audit.setups import MINIMUM, REPLICAS, UNCLEAN, Setup
from ackproof.own_config.configuration import (
    Client,
    Default,
    FileLine,
    Given,
    NoFile,
    OfBrokers,
    Settings,
    kafka_default,
)
from ackproof.own_config.lookups import converted, recorded_with
from ackproof.scenario.kafka_clients import ALIASES, CONSUMER_DEFAULTS
from ackproof_model import removal
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    BROKER_DEFAULTS,
    ENABLE_AUTO_COMMIT,
    MIN_INSYNC_REPLICAS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    RETENTION_MS,
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
)
from ackproof_model.worst_case.answer import acks_nothing

#: Defaults of brokers and topics that no version of the model changes.
_BROKER_DEFAULTS: Mapping[str, str] = {**BROKER_DEFAULTS, **removal.DEFAULTS}
#: Frameworks that commit offsets themselves: they set enable.auto.commit to false unless the
#: application sets it (Spring Kafka from 2.3 on, SmallRye Reactive Messaging, Kafka Streams).
COMMITTING_FRAMEWORKS = ("spring", "quarkus", "smallrye", "kafka streams")


def of_broker(setup: Setup, key: str) -> Given:
    """Return a setting of the brokers, or of one of their topics if a file describes it."""
    name, of_topic = _OF_TOPICS.get(key, ("", ""))
    if name and (given := of_internal(setup, name, of_topic)):
        return given
    if (given := setup.own.broker.get(key)) and given.value:
        return given
    if key in setup.when:
        return Given(str(setup.when[key]), NoFile.UNSTATED)
    version = setup.partition.kafka_version
    unclean = str(Profile.of(version).unclean_by_default).lower()
    default = {**_BROKER_DEFAULTS, UNCLEAN: unclean}.get(key, "")
    return Given(default, kafka_default(version))


OFFSETS = OFFSETS_TOPIC_REPLICATION_FACTOR
OFFSETS_TOPIC = "__consumer_offsets"


def offsets_replicas(setup: Setup) -> list[tuple[Given, dict[str, str]]]:
    """Return the replicas of the offsets topic, with what is assumed if no file states it."""
    given = of_broker(setup, OFFSETS)
    few, usual = ((Given(one, NoFile.UNSTATED), {OFFSETS: one}) for one in ("1", given.value))
    if isinstance(given.source, Default) and of_image(setup, OFFSETS):
        return [few, usual]
    if setup.own.defaults_hold or not isinstance(given.source, Default):
        return [(given, {})]
    small = setup.own.brokers is not None and setup.own.brokers.value <= 2
    return [few] if MINIMUM not in setup.when or small else [few, usual]


def of_image(setup: Setup, key: str) -> bool:
    """Whether the image of brokers may have a setting in a file of its own, which is not known."""
    given = setup.own.broker.get(key)
    return given is not None and not given.value and isinstance(given.source, Default)


#: Whether a commit waits for replicas; a setting until Kafka 4.0, where it always does.
_COMMITS = "offsets.commit.required.acks"

#: Settings by which brokers create their own topics: afterwards the topic's own setting counts.
_OF_TOPICS: Mapping[str, tuple[str, str]] = {
    OFFSETS_TOPIC_REPLICATION_FACTOR: ("__consumer_offsets", REPLICAS),
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR: ("__transaction_state", REPLICAS),
    TRANSACTION_STATE_LOG_MIN_ISR: ("__transaction_state", MIN_INSYNC_REPLICAS),
}


def of_internal(setup: Setup, name: str, key: str) -> Given | None:
    """Return a setting of the topic of this name; None if no file states it."""
    topic = next((one for one in setup.own.topics if one.name == name), None)
    if topic is None or key == REPLICAS:
        return topic.replication_factor if topic else None
    return topic.settings.get(key)


def of_offsets_topic(setup: Setup, key: str) -> Given:
    return of_internal(setup, OFFSETS_TOPIC, key) or of_broker(setup, key)


def refuses_commits(setup: Setup, replicas: Given, minimum: Given) -> bool:
    """Whether the offsets topic has too few replicas for a minimum, and so accepts no write.

    The coordinator writes a group's members, too (`GroupMetadataManager.storeGroup`), and answers
    COORDINATOR_NOT_AVAILABLE. Brokers count replicas alike in both modes, so the setup is one with
    their own version, not with the version of its mode's rules.
    """
    acks = setup.own.broker.get(_COMMITS)
    if not (minimum.value.isdecimal() and replicas.value.isdecimal()):
        return False
    return acks_nothing(
        setup.partition.kafka_version,
        acks="all" if acks is None or acks.value in ("-1", "all") else acks.value,
        replicas=int(replicas.value),
        minimum=int(minimum.value),
    )


def of_topic(setup: Setup, key: str) -> Given:
    """Return a setting of the topic: its own, that of the brokers, or Kafka's default."""
    if given := setup.settings.get(key) or setup.topic.settings.get(key):
        return given
    for name in removal.setting_names(key)[1:]:
        if given := setup.own.broker.get(name):
            return given
    return of_broker(setup, key)


def unstated(setup: Setup, setting: str) -> Given:
    """Return the value of a setting that is assumed; its source may be a line that is not read."""
    of_brokers = setup.own.broker.get(setting)
    line = of_brokers.source if of_brokers else None
    source = OfBrokers(line) if isinstance(line, FileLine) else NoFile.ASSUMED
    return Given(str(setup.when[setting]), source)


def removal_settings(setup: Setup) -> Mapping[str, object]:
    """Return the settings in force by which Kafka removes records of the topic on purpose.

    Files that were not given may have a retention; then none is assumed.
    """
    own = setup.topic.settings
    settings = removal.in_force(
        converted(setup.own.broker, lambda given: given.value),
        {key: given.value for key, given in own.items()},
    )
    if not setup.defaults_hold:
        settings = {RETENTION_MS: removal.KEEP_EVERYTHING[RETENTION_MS], **settings}
    settings = recorded_with(own, settings)
    for key in removal.DEFAULTS:
        settings.setdefault(key, of_topic(setup, key).value)
    return settings


def replication_factor(setup: Setup) -> Given:
    """Return the topic's replication factor; its source is no file if it is assumed."""
    given = setup.settings.get(REPLICAS)
    return given or Given(str(setup.partition.replication_factor), NoFile.UNSTATED)


def of_producer(setup: Setup, key: str, value: object) -> Given:
    """Return a setting of the producer. value: the one in force if no file states it."""
    settings = {} if setup.producer is None else setup.producer.settings
    given = setup.settings.get(key) or stated(settings, key)
    return given or Given(str(value), setup.producer.default if setup.producer else NoFile.UNSTATED)


def of_consumer(setup: Setup, consumer: Client, key: str) -> Given:
    """Return a setting of a consumer; frameworks have defaults of their own."""
    if given := stated(consumer.settings, key):
        return given
    if key == ENABLE_AUTO_COMMIT and commits_itself(consumer):
        return Given("false", Default(consumer.framework))
    value = CONSUMER_DEFAULTS[consumer.library].get(key, "")
    return Given(value, consumer.default)


def commits_itself(consumer: Client) -> bool:
    """Whether the consumer's framework commits what its listener has processed."""
    framework = consumer.framework.lower()
    return any(name in framework for name in COMMITTING_FRAMEWORKS)


def stated(settings: Settings, key: str) -> Given | None:
    """Return the value that a file states, also under librdkafka's other names of the setting."""
    names = [key, *(alias for alias, name in ALIASES.items() if name == key)]
    return next((settings[name] for name in names if name in settings), None)
