"""Certificates for one cluster, from a new certificate authority; they expire after two days.

The authority's key is used here and not stored, so no further certificate can be issued. Brokers
read PKCS#12, which every Kafka version supports; librdkafka and Spark read PEM.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_VALID = timedelta(days=2)
#: Certificates begin in the past, because faults may set the clocks of brokers back.
_BEFORE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Certificates and keys of brokers and clients; `*_pem` are text, stores are PKCS#12.

    Everything but `authority_pem` is secret.
    """

    authority_pem: str
    broker_keystore: bytes = field(repr=False)
    truststore: bytes = field(repr=False)
    client_certificate_pem: str = field(repr=False)
    client_key_pem: str = field(repr=False)


def issue(*, password: str, now: datetime | None = None) -> Certificates:
    """Issue an authority, a certificate for brokers at 127.0.0.1 and one for clients.

    `password` encrypts the stores.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    now = now or datetime.now(UTC)
    authority_key = _new_key()
    authority = _certificate("ackproof run", authority_key, "ackproof run", authority_key, now)
    broker_key, client_key = _new_key(), _new_key()
    broker = _certificate("broker", broker_key, "ackproof run", authority_key, now)
    client = _certificate("client", client_key, "ackproof run", authority_key, now)
    encryption = serialization.BestAvailableEncryption(password.encode())
    pem = serialization.Encoding.PEM
    return Certificates(
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
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
