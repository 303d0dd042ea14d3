"""librdkafka's settings as the Java client takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark.client_settings import for_connector, for_librdkafka


def test_librdkafkas_are_only_prefixed() -> None:
    assert for_librdkafka({"ssl.ca.location": "x"}) == {"kafka.ssl.ca.location": "x"}


def test_a_user_and_a_password_are_a_login_module() -> None:
    given = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'a"b\\c',
    }
    assert for_connector(given) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="me" password="a\\"b\\\\c";'
        ),
    }


def test_certificates_are_passed_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    given = {
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.pem": "CERTIFICATE",
        "ssl.key.pem": "KEY",
    }
    assert for_connector(given) == {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "CA",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "CERTIFICATE",
        "kafka.ssl.keystore.key": "KEY",
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl.oauthbearer.config": "x"}, "sasl.oauthbearer.config has no known counterpart"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location: /nowhere/ca.pem cannot be read"),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.username": "x"},
            "sasl.mechanism GSSAPI is not",
        ),
    ],
)
def test_a_setting_without_a_counterpart_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        for_connector(given)
