"""TLS, mutual TLS, SASL/PLAIN and SASL/SCRAM-SHA-512 for the clients of a cluster.

The listeners for clients (EXTERNAL and those that a scenario names) are secured. INTERNAL and
CONTROLLER exist only inside the cluster's network, are not published, and stay plaintext, because
Kafka's own tools use them.

Secrets are generated for each cluster. Brokers get them as files that are copied into their
containers before the start, producers through standard input, Spark in this process. No
environment, argument list or stored file contains them.
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
    """The secrets of one cluster; `repr` does not show them."""

    spec: SecuritySpec
    password: str = field(repr=False)
    store_password: str = field(repr=False)
    certificates: Certificates = field(repr=False)

    @property
    def client_settings(self) -> dict[str, str]:
        """A client's security settings, in librdkafka's names; secret."""
        settings = {"security.protocol": self.spec.protocol}
        if self.spec.tls != "none":
            settings["ssl.ca.pem"] = self.certificates.authority_pem
        if self.spec.tls == "mutual":
            settings["ssl.certificate.pem"] = self.certificates.client_certificate_pem
            settings["ssl.key.pem"] = self.certificates.client_key_pem
        if self.spec.sasl != "none":
            settings |= {
                "sasl.mechanism": self.spec.sasl.upper(),
                "sasl.username": USER,
                "sasl.password": self.password,
            }
        return settings

    @property
    def scram(self) -> str:
        """The argument of `kafka-storage format --add-scram`; empty without SCRAM; secret."""
        if self.spec.sasl != "scram-sha-512":
            return ""
        return f"SCRAM-SHA-512=[name={USER},password={self.password}]"

    def broker_files(self) -> dict[str, bytes]:
        """Return a broker's key stores by file name; secret."""
        if self.spec.tls == "none":
            return {}
        return {
            _KEYSTORE: self.certificates.broker_keystore,
            _TRUSTSTORE: self.certificates.truststore,
        }

    def broker_settings(self, listeners: Sequence[str], *, folder: str) -> dict[str, str]:
        """Return a broker's settings for these listeners; `folder` has its files; secret."""
        common = {**self._tls(folder), **self._sasl()}
        settings = {
            f"listener.name.{listener.lower()}.{key}": value
            for listener in listeners
            for key, value in common.items()
        }
        if self.spec.sasl != "none":
            settings["sasl.enabled.mechanisms"] = self.spec.sasl.upper()
        return settings

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
    """Generate the secrets for this security; None for PLAINTEXT."""
    if spec.protocol == "PLAINTEXT":
        return None
    store_password = secrets.token_urlsafe(24)
    return Security(
        spec=spec,
        password=secrets.token_urlsafe(24),
        store_password=store_password,
        certificates=issue(password=store_password),
    )
