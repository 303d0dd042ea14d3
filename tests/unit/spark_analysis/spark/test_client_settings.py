"""librdkafka's settings, translated for the Java client."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark.client_settings import for_connector, for_librdkafka


def test_settings_for_librdkafka_only_get_a_prefix() -> None:
    assert for_librdkafka({"ssl.ca.location": "x"}) == {"kafka.ssl.ca.location": "x"}


def test_user_and_password_become_a_login_module() -> None:
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
    ("given", "message"),
    [
        ({"sasl.oauthbearer.config": "x"}, "sasl.oauthbearer.config has no known counterpart"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location: /nowhere/ca.pem cannot be read"),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.username": "x"},
            "sasl.mechanism GSSAPI is not",
        ),
    ],
)
def test_a_setting_without_a_counterpart_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        for_connector(given)
