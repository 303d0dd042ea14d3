"""How clients and brokers prove who they are: TLS, mutual TLS, SASL/PLAIN, SASL/SCRAM-SHA-512.

It is the clients' listeners (EXTERNAL, and those that a scenario names) that are secured. INTERNAL
and CONTROLLER exist only inside the run's own network, are published nowhere, and stay plaintext:
Kafka's own tools ask there.

Secrets are made for one cluster and die with it. They reach brokers as files inside their
containers, put there before the start; producers through standard input; Spark in this process.
They are in no environment, no argument list and nothing that is stored.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from ackproof.cluster.certificates import Certificates, issue
from ackproof.kafka_versions import numbers
from ackproof.scenario.types import Problem, StrictModel

USER = "ackproof"

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

#: Settings for one listener and mechanism came with KIP-103 and KIP-226; SCRAM credentials at
#: format time, without which no client could be the first, with KIP-900.
_SINCE = (2, 0)
_SCRAM_SINCE = (3, 5)

_KEYSTORE, _TRUSTSTORE = "broker.p12", "authority.p12"


class SecuritySpec(StrictModel):
    """How clients reach the brokers; certificates and passwords are made for the run."""

    tls: Literal["none", "server", "mutual"] = Field(
        default="none",
        description="server: brokers show a certificate; mutual: clients, too",
    )
    sasl: Literal["none", "plain", "scram-sha-512"] = Field(
        default="none", description="how clients log in"
    )

    @property
    def protocol(self) -> str:
        """Kafka's name for it (`security.protocol`)."""
        if self.sasl == "none":
            return "PLAINTEXT" if self.tls == "none" else "SSL"
        return "SASL_PLAINTEXT" if self.tls == "none" else "SASL_SSL"


def problems(security: SecuritySpec, kafka: str) -> Iterator[Problem]:
    """Yield what this Kafka version cannot be told, as (path, problem)."""
    if security.protocol != "PLAINTEXT" and numbers(kafka) < _SINCE:
        yield ("cluster", "security"), f"ackproof secures Kafka from 2.0.0 on, and kafka is {kafka}"
    elif security.sasl == "scram-sha-512" and numbers(kafka) < _SCRAM_SINCE:
        yield (
            ("cluster", "security", "sasl"),
            f"a cluster is formatted with SCRAM credentials from 3.5.0 on (KIP-900), and kafka is "
            f"{kafka}: use plain",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What one cluster is secured with. Its text shows no secret."""

    spec: SecuritySpec
    password: str = field(repr=False)
    store_password: str = field(repr=False)
    certificates: Certificates = field(repr=False)

    @property
    def client_settings(self) -> dict[str, str]:
        """Return what a client needs, by librdkafka's names; secret."""
        found = {"security.protocol": self.spec.protocol}
        if self.spec.tls != "none":
            found["ssl.ca.pem"] = self.certificates.authority_pem
        if self.spec.tls == "mutual":
            found["ssl.certificate.pem"] = self.certificates.client_certificate_pem
            found["ssl.key.pem"] = self.certificates.client_key_pem
        if self.spec.sasl != "none":
            found |= {
                "sasl.mechanism": self.spec.sasl.upper(),
                "sasl.username": USER,
                "sasl.password": self.password,
            }
        return found

    @property
    def scram(self) -> str:
        """What `kafka-storage format --add-scram` is told; empty without SCRAM; secret."""
        if self.spec.sasl != "scram-sha-512":
            return ""
        return f"SCRAM-SHA-512=[name={USER},password={self.password}]"

    def broker_files(self) -> dict[str, bytes]:
        """Return the files that a broker reads, by name; secret."""
        if self.spec.tls == "none":
            return {}
        return {
            _KEYSTORE: self.certificates.broker_keystore,
            _TRUSTSTORE: self.certificates.truststore,
        }

    def broker_settings(self, listeners: Sequence[str], *, folder: str) -> dict[str, str]:
        """Return a broker's settings for these listeners; `folder` holds its files; secret."""
        found: dict[str, str] = {}
        for listener in listeners:
            own = {**self._tls(folder), **self._sasl()}
            found |= {f"listener.name.{listener.lower()}.{key}": own[key] for key in own}
        if self.spec.sasl != "none":
            found["sasl.enabled.mechanisms"] = self.spec.sasl.upper()
        return found

    def _tls(self, folder: str) -> Mapping[str, str]:
        if self.spec.tls == "none":
            return {}
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": f"{folder}/{_KEYSTORE}",
            "ssl.keystore.password": self.store_password,
            "ssl.key.password": self.store_password,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": f"{folder}/{_TRUSTSTORE}",
            "ssl.truststore.password": self.store_password,
            "ssl.client.auth": "required" if self.spec.tls == "mutual" else "none",
        }

    def _sasl(self) -> Mapping[str, str]:
        if self.spec.sasl == "none":
            return {}
        mechanism = self.spec.sasl
        line = f"{_SCRAM_MODULE} required;"
        if mechanism == "plain":
            line = f'{_PLAIN_MODULE} required user_{USER}="{self.password}";'
        return {
            "sasl.enabled.mechanisms": mechanism.upper(),
            f"{mechanism}.sasl.jaas.config": line,
        }


def secured(spec: SecuritySpec) -> Security | None:
    """Make what a cluster needs to be secured so; None if it is not to be."""
    if spec.protocol == "PLAINTEXT":
        return None
    store_password = secrets.token_urlsafe(24)
    return Security(
        spec=spec,
        password=secrets.token_urlsafe(24),
        store_password=store_password,
        certificates=issue(password=store_password),
    )
