"""TLS, mutual TLS, SASL/PLAIN and SASL/SCRAM-SHA-512 for the clients of a cluster.

The listeners for clients (EXTERNAL and further ones of a scenario) are secured. INTERNAL and
CONTROLLER exist only inside the cluster's network, are not published, and stay plaintext, because
Kafka's own tools use them.

Secrets are generated for each cluster. Brokers get them as files that are copied into their
containers before the start, producers through standard input, Spark in this process. Environments,
argument lists and stored files do not contain them.

Certificates come from a new certificate authority and expire after two days. The authority's key is
not stored. Brokers read PKCS#12, which every Kafka version supports; librdkafka and Spark read PEM.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from ackproof.scenario.cluster import SecuritySpec

USER = "ackproof"

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

_AUTHORITY = "ackproof run"
_KEYSTORE, _TRUSTSTORE = "broker.p12", "authority.p12"

_VALID = timedelta(days=2)
#: Certificates begin in the past, because faults may set the clocks of brokers back.
_BEFORE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The secrets of one cluster; `repr` does not show them.

    `*_pem` are text, stores are PKCS#12. Everything but `authority_pem` is secret.
    """

    spec: SecuritySpec
    password: str = field(repr=False)
    store_password: str = field(repr=False)
    authority_pem: str = field(repr=False)
    broker_keystore: bytes = field(repr=False)
    truststore: bytes = field(repr=False)
    client_certificate_pem: str = field(repr=False)
    client_key_pem: str = field(repr=False)

    @property
    def client_settings(self) -> dict[str, str]:
        """A client's security settings, in librdkafka's names; secret."""
        settings = {"security.protocol": self.spec.protocol}
        if self.spec.tls != "none":
            settings["ssl.ca.pem"] = self.authority_pem
        if self.spec.tls == "mutual":
            settings["ssl.certificate.pem"] = self.client_certificate_pem
            settings["ssl.key.pem"] = self.client_key_pem
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
        return {_KEYSTORE: self.broker_keystore, _TRUSTSTORE: self.truststore}

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
        if mechanism == "plain":
            line = f'{_PLAIN_MODULE} required user_{USER}="{self.password}";'
        else:
            line = f"{_SCRAM_MODULE} required;"
        return {
            "sasl.enabled.mechanisms": mechanism.upper(),
            f"{mechanism}.sasl.jaas.config": line,
        }


def secured(spec: SecuritySpec) -> Security | None:
    """Generate the secrets for this security; None for PLAINTEXT.

    An authority issues a certificate for brokers at 127.0.0.1 and one for clients. The store
    password encrypts the stores.
    """
    if spec.protocol == "PLAINTEXT":
        return None
    now = datetime.now(UTC)
    authority_key, broker_key, client_key = _new_key(), _new_key(), _new_key()
    authority = _certificate(_AUTHORITY, authority_key, authority_key, now)
    broker = _certificate("broker", broker_key, authority_key, now)
    client = _certificate("client", client_key, authority_key, now)
    store_password = secrets.token_urlsafe(24)
    encryption = serialization.BestAvailableEncryption(store_password.encode())
    pem = serialization.Encoding.PEM
    return Security(
        spec=spec,
        password=secrets.token_urlsafe(24),
        store_password=store_password,
        authority_pem=authority.public_bytes(pem).decode(),
        broker_keystore=pkcs12.serialize_key_and_certificates(
            b"broker", broker_key, broker, [authority], encryption
        ),
        truststore=pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(authority, b"authority")], encryption
        ),
        client_certificate_pem=client.public_bytes(pem).decode(),
        client_key_pem=client_key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    constraints = x509.BasicConstraints(ca=name == _AUTHORITY, path_length=None)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(_AUTHORITY))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _VALID)
        .add_extension(constraints, critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
