"""Security settings of brokers and clients; no `repr` shows a secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from ackproof.cluster.node_files import server_properties
from ackproof.cluster.security import Security, secured
from ackproof.cluster.topology import arrange
from ackproof.scenario.cluster import ClusterSpec, SecuritySpec


def made(**spec: str) -> Security:
    issued = secured(SecuritySpec.model_validate(spec))
    assert issued is not None
    return issued


@pytest.mark.parametrize(
    ("spec", "protocol"),
    [
        ({"tls": "server"}, "SSL"),
        ({"tls": "mutual"}, "SSL"),
        ({"sasl": "plain"}, "SASL_PLAINTEXT"),
        ({"tls": "server", "sasl": "scram-sha-512"}, "SASL_SSL"),
    ],
)
def test_tls_and_sasl_determine_the_protocol(spec: dict[str, str], protocol: str) -> None:
    settings = made(**spec).client_settings
    assert settings["security.protocol"] == protocol
    assert ("ssl.key.pem" in settings) == (spec.get("tls") == "mutual")


def test_repr_shows_no_secret_and_two_clusters_share_none() -> None:
    security, other = (made(tls="mutual", sasl="scram-sha-512") for _ in range(2))
    for secret in (
        security.password,
        security.store_password,
        security.client_key_pem,
        repr(security.broker_keystore),
    ):
        assert secret not in repr(security)
    assert security.password != other.password
    assert security.authority_pem != other.authority_pem
    assert secured(SecuritySpec()) is None, "without security there are none"


def test_only_the_listeners_of_clients_are_secured() -> None:
    spec = ClusterSpec(brokers=1, listeners=["REPORTING"])
    topology = arrange(spec, "4.3.1", cluster_id="x", ports=count(1))
    security = made(tls="server", sasl="plain")
    broker = server_properties(topology.brokers[0], topology, security)
    protocols = next(line for line in broker.splitlines() if "protocol.map" in line)
    assert "EXTERNAL:SASL_SSL" in protocols
    assert "REPORTING:SASL_SSL" in protocols
    assert "INTERNAL:PLAINTEXT" in protocols
    assert "CONTROLLER:PLAINTEXT" in protocols
    for listener in ("external", "reporting"):
        assert f"listener.name.{listener}.ssl.keystore.location=" in broker
        assert f"listener.name.{listener}.plain.sasl.jaas.config=" in broker
    (controller,) = topology.controllers
    assert "keystore" not in server_properties(controller, topology, security)


def test_certificates_expire_soon_and_name_the_address_of_brokers() -> None:
    security = made(tls="server")
    _, broker, others = pkcs12.load_key_and_certificates(
        security.broker_keystore, security.store_password.encode()
    )
    assert broker is not None
    names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name) for name in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert broker.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=2)
    (authority,) = others
    assert authority.subject == broker.issuer
    broker.verify_directly_issued_by(authority)
