"""Which Kafka versions support which security."""

from __future__ import annotations

import pytest

from ackproof.scenario.cluster import SecuritySpec, security_problems


@pytest.mark.parametrize(
    ("spec", "kafka", "said"),
    [
        ({"tls": "server"}, "0.10.2.2", "from 2.0.0"),
        ({"sasl": "scram-sha-512"}, "3.4.0", "KIP-900"),
        ({"sasl": "scram-sha-512"}, "2.6.2", "KIP-900"),
    ],
)
def test_unsupported_security_is_a_problem(spec: dict[str, str], kafka: str, said: str) -> None:
    ((_, problem),) = security_problems(SecuritySpec.model_validate(spec), kafka)
    assert said in problem
    assert list(security_problems(SecuritySpec.model_validate(spec), "4.3.1")) == []
