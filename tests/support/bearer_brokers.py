"""Brokers that accept an issuer's tokens (`tests.support.issuer`), on a SASL_PLAINTEXT listener; topics are created at
first use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.wire.protocol.jaas import BEARER_MODULE
from tests.support.apache_kafka import apache_kafka, free_port
from tests.support.held_port import held_port, port_of
from tests.support.issuer import AUDIENCE, Issuer
from tests.support.running_broker import RunningBroker

_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_PREFIX = "listener.name.oauth.oauthbearer."


def _settings(issuer: Issuer) -> dict[str, str]:
    return {
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{_PREFIX}sasl.jaas.config": f"{BEARER_MODULE} required;",
        f"{_PREFIX}sasl.server.callback.handler.class": _HANDLER,
        f"{_PREFIX}connections.max.reauth.ms": "3600000",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": issuer.url,
        "connection.failed.authentication.delay.ms": "0",
    }


@contextmanager
def bearer_moldau(scratch: Path, issuer: Issuer) -> Iterator[str]:
    """Gives the address of the listener."""
    with held_port() as plain, held_port() as bearer:
        address = f"127.0.0.1:{port_of(bearer)}"
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port_of(plain)},OAUTH://{address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT",
            "log.dirs": str(scratch / "data"),
            "moldau.oauthbearer.allowed.urls": issuer.jwks_url,
        }
        config = scratch / "node.properties"
        config.write_text("\n".join(f"{name}={text}" for name, text in (own | _settings(issuer)).items()))
        broker = RunningBroker("--no-console", "--config", str(config)).wait_until_ready()
        try:
            yield address
        finally:
            broker.stop()


@contextmanager
def bearer_apache_kafka(scratch: Path, issuer: Issuer) -> Iterator[str]:
    """Gives the address of the listener."""
    address = f"127.0.0.1:{free_port()}"
    protocols = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT"}
    with (
        allowed_in_java(issuer.jwks_url),
        apache_kafka(scratch, scratch / "data", _settings(issuer) | protocols, listeners=[f"OAUTH://{address}"]),
    ):
        yield address


@contextmanager
def allowed_in_java(*urls: str, files: tuple[Path, ...] = ()) -> Iterator[None]:
    """Java programs that start meanwhile may reach these addresses, and read these files."""
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed."
    options = f"{allowed}urls={','.join(urls)} {allowed}files={','.join(map(str, files))}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {options}")
        yield
