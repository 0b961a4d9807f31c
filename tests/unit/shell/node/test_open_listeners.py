"""A start's warnings about listeners that are open to the network."""

from __future__ import annotations

import pytest

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.network.event_log import EventLog
from moldau.shell.node.open_listeners import warn_of_open_listeners
from moldau.wire.protocol.jaas import PLAIN_MODULE

SASL = {
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret";',
}
BEARER = {
    **SASL,
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "file:/keys.json",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, None),
        ({"listeners": "PLAINTEXT://localhost:9092"}, None),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, None),
        ({"listeners": "PLAINTEXT://10.0.0.1:9092"}, "whoever reaches listener PLAINTEXT may read, write and change"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://a:1"}, "whoever reaches"),
        ({"listeners": "PLAINTEXT://10.0.0.1:9092", "authorizer.class.name": STANDARD_AUTHORIZER}, None),
        ({**SASL, "listeners": "SASL://10.0.0.1:9092", "sasl.enabled.mechanisms": "PLAIN"}, "passwords cross"),
        ({**SASL, "listeners": "SASL://127.0.0.1:9092", "sasl.enabled.mechanisms": "PLAIN"}, None),
        ({**BEARER, "listeners": "SASL://10.0.0.1:9092"}, "tokens cross the network in plain text to listener SASL"),
        ({**BEARER, "listeners": "SASL://127.0.0.1:9092"}, None),
    ],
)
def test_only_a_listener_off_the_loopback_address_is_told(
    caplog: pytest.LogCaptureFixture, settings: dict[str, str], told: str | None
) -> None:
    warn_of_open_listeners(parse_broker_settings(settings), EventLog(ManualClock()))
    assert [told is not None and told in record.getMessage() for record in caplog.records] == [True] * bool(told)
