"""TLS settings for tests, with certificates of `tests.support.certificates`."""

from __future__ import annotations

from pathlib import Path

from moldau.core.config.broker_settings import ROWS_BY_NAME
from moldau.core.config.setting import SettingValue, parse_value
from moldau.core.config.tls_settings import TlsSettings, tls_settings
from tests.support.certificates import Authority, Issued, authority


def settings_of(**texts: str) -> TlsSettings:
    """`keystore_type="PEM"` is `ssl.keystore.type`."""

    def value_of(name: str, text: str | None) -> SettingValue:
        row = ROWS_BY_NAME[name]
        chosen = row[2] if text is None else text
        return None if chosen is None else parse_value(name, row[1], chosen)

    return tls_settings("x", {f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()}, value_of)


def identity(issued: Issued) -> dict[str, str]:
    return {
        "keystore_type": "PEM",
        "keystore_key": issued.key_pem,
        "keystore_certificate_chain": issued.chain_pem,
    }


def trust(of: Authority) -> dict[str, str]:
    return {"truststore_type": "PEM", "truststore_certificates": of.pem}


def settings_in(directory: Path, **more: str) -> dict[str, str]:
    """Of a node with one listener, SSL. `client_auth="required"` is `ssl.client.auth`."""
    return {
        "listeners": "SSL://127.0.0.1:9092",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority().issue("CN=server").write(directory, "server")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority().write(directory)),
        **{f"ssl.{name.replace('_', '.')}": value for name, value in more.items()},
    }


def trusting(directory: Path, identity: Issued | None = None) -> dict[str, str]:
    """The settings of a client of librdkafka."""
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(authority().write(directory)), "log_level": "0"}
    if identity is None:
        return settings
    return {**settings, "ssl.certificate.pem": identity.chain_pem, "ssl.key.pem": identity.key_pem}


def of_broker(directory: Path, **more: str) -> dict[str, str]:
    """The settings of a node, its files in `directory`; `client_auth="required"` is `ssl.client.auth`."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority().issue("CN=node").write(directory, "node")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority().write(directory)),
        **{f"ssl.{name.replace('_', '.')}": text for name, text in more.items()},
    }
