"""What the arms of a conformance test have in common."""

import os

import pytest

from ackproof.kafka_versions import DEFAULT_KAFKA

#: What the mock gives every topic; it creates them when they are first asked for.
PARTITIONS = 4
#: Seconds that anything awaited may take.
WITHIN = 60.0

#: The version of kafka-clients; ci/slow tries others.
JAVA_CLIENT = os.environ.get("ACKPROOF_JAVA_CLIENT", DEFAULT_KAFKA)

#: Another version of librdkafka than the installed one: the oldest with a wheel for Python 3.11.
OTHER_LIBRDKAFKA = os.environ.get("ACKPROOF_LIBRDKAFKA", "2.0.2")

MOCK = "mock"
REAL = pytest.param("cluster", marks=pytest.mark.cluster)
JAVA = pytest.param("java", marks=pytest.mark.cluster)
#: The real arms of a test that another one repeats in its essence.
LATER_REAL = pytest.param("cluster", marks=[pytest.mark.cluster, pytest.mark.slow])
LATER_JAVA = pytest.param("java", marks=[pytest.mark.cluster, pytest.mark.slow])
OTHER = pytest.param("other librdkafka", marks=[pytest.mark.cluster, pytest.mark.slow])
