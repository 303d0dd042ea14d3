"""Predictions for transactions and consumer groups, under any fault.

Three questions are put together. What faults do to requests on their way and to coordinators:
`disturbances`. What the partitions of a topic or of a coordinator can lose: the model of
replication, asked about that partition with its own settings. What then becomes of transactions and
committed offsets: the model's specifications of both, searched with these perturbations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from ackproof.prediction import groups, reused_buffers, transactional
from ackproof.prediction.reasons import ClientPrediction
from ackproof.scenario.librdkafka import ProducerSettings
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import TopicSpec
from ackproof_model import Profile

#: Whether the topic that a scenario's workload writes to may lose acked records.
MayLose = Callable[[Scenario], bool]

#: How coordinators and forwarding consumers write.
_ACKS_ALL = ProducerSettings.model_validate({"acks": "all", "enable.idempotence": True})


def predict_clients(scenario: Scenario, replication: MayLose) -> Iterator[ClientPrediction]:
    """Yield the predictions for a scenario's transactions and consumer groups, if it has any.

    And for what a version of the Java producer does wrong.

    The model must have a profile of the scenario's Kafka version.
    """

    @cache
    def may_lose(topic: str) -> bool:
        """Whether this topic, written with acks=all, may lose what all in-sync replicas have."""
        return replication(_written(scenario, topic))

    @cache
    def may_lose_visible() -> bool:
        """Whether the workload's topic may lose what consumers have read."""
        return replication(_visible(scenario))

    yield from reused_buffers.predict(scenario)
    if scenario.workload.transactions is not None:
        yield from transactional.predict(scenario, may_lose)
    for name, group in scenario.workload.consumers.items():
        yield from groups.predict(scenario, name, group, may_lose, may_lose_visible)


def _written(scenario: Scenario, topic: str, **changed: object) -> Scenario:
    """Return the scenario as if its workload wrote to `topic`, with acks=all."""
    topics = scenario.every_topic
    spec = topics[topic].model_copy(update=changed)
    workload = scenario.workload.model_copy(
        update={"topic": topic, "settings": _ACKS_ALL, "transactions": None, "consumers": {}}
    )
    return scenario.model_copy(update={"topics": {**topics, topic: spec}, "workload": workload})


def _visible(scenario: Scenario) -> Scenario:
    """Return the scenario in which acked means: below the high watermark, so that it can be read.

    Before 3.7 the high watermark moves even if the ISR is smaller than min.insync.replicas.
    """
    topic: TopicSpec = scenario.topic
    frozen = Profile.of(scenario.kafka).hw_freeze
    settings = topic.settings if frozen else {**topic.settings, "min.insync.replicas": 1}
    return _written(scenario, scenario.workload.topic, settings=settings)
