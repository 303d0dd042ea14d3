"""Client settings by librdkafka's names, translated for the Java client.

The clients share most names, except for security: instead of `ssl.ca.location` and `sasl.password`
the Java client has PEM trust stores and a JAAS line (KIP-651 and
`org.apache.kafka.common.config.SaslConfigs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ackproof_spark.errors import AnalysisError

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

#: Kinds of PEM, by librdkafka's name without `.location` (a file) or `.pem` (its content).
_PEM = {
    "ssl.ca": ("ssl.truststore.type", "ssl.truststore.certificates"),
    "ssl.certificate": ("ssl.keystore.type", "ssl.keystore.certificate.chain"),
    "ssl.key": ("ssl.keystore.type", "ssl.keystore.key"),
}
#: A file is replaced by its content, because executors have other disks.
_FILES = {f"{name}.location": java for name, java in _PEM.items()}
_INLINE = {f"{name}.pem": java for name, java in _PEM.items()}

_RENAMED = {
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "security.protocol": "security.protocol",
    "ssl.key.password": "ssl.key.password",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}

_SASL = ("sasl.username", "sasl.password")


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` as options of `kafka_source`."""
    return {f"kafka.{key}": value for key, value in settings.items()}


def for_connector(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` as options of Spark's Kafka connector; raises as `for_java` does."""
    return {f"kafka.{key}": value for key, value in for_java(settings).items()}


def for_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` by the Java client's names.

    Raises `AnalysisError` for a setting without a counterpart, or a missing file.
    """
    translated: dict[str, str] = {}
    for key, value in settings.items():
        if key in _FILES:
            kind, content = _FILES[key]
            translated |= {kind: "PEM", content: _content(key, value)}
        elif key in _INLINE:
            kind, content = _INLINE[key]
            translated |= {kind: "PEM", content: value}
        elif key in _RENAMED:
            translated[_RENAMED[key]] = _translated(key, value)
        elif key not in _SASL:
            legal = ", ".join(sorted({*_FILES, *_INLINE, *_RENAMED, *_SASL}))
            raise AnalysisError(
                f"the client setting {key} has no known counterpart in the Java client; "
                f"these have one: {legal}"
            )
    if "sasl.username" in settings:
        translated["sasl.jaas.config"] = _login(translated.get("sasl.mechanism", "PLAIN"), settings)
    return translated


def _translated(key: str, value: str) -> str:
    # librdkafka accepts protocols in any case, and "none" to switch off the check of host names.
    if key == "security.protocol":
        return value.upper()
    return "" if key.startswith("ssl.endpoint") and value == "none" else value


def _content(key: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeError) as error:
        raise AnalysisError(f"{key}: {path} cannot be read as PEM ({error})") from None


def _login(mechanism: str, settings: Mapping[str, str]) -> str:
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise AnalysisError(
            f"sasl.mechanism {mechanism} is not supported with a user name and a password; "
            f"legal: {', '.join(_LOGIN_MODULES)}"
        )
    user, password = (_quoted(settings.get(key, "")) for key in _SASL)
    return f"{module} required username={user} password={password};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
