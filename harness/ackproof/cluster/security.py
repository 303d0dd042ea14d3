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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.cluster.certificates import Certificates, issue
from ackproof.scenario.security import SecuritySpec

USER = "ackproof"

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

_KEYSTORE, _TRUSTSTORE = "broker.p12", "authority.p12"


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
