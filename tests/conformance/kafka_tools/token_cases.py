"""`kafka-delegation-tokens` without a login: its flags, and a broker's answer to clients that do not log in. Tokens
themselves: `test_delegation_tokens.py`."""

from __future__ import annotations

from tests.conformance.kafka_tools.step import Step

_TOKENS = "kafka-delegation-tokens --bootstrap-server {b} --command-config {tmp}/client.properties"

TOKENS: dict[str, tuple[Step, ...]] = {
    "delegation-tokens-flags": (
        Step("kafka-delegation-tokens"),
        Step("kafka-delegation-tokens --version"),
        Step("kafka-delegation-tokens --describe", says=True),
        Step("kafka-delegation-tokens --bootstrap-server {b} --describe", says=True),
        Step(_TOKENS, says=True),
        Step(f"{_TOKENS} --create --describe", says=True),
        Step(f"{_TOKENS} --create", says=True),
        Step(f"{_TOKENS} --create --max-life-time-period -1 --hmac aaaa", says=True),
        Step(f"{_TOKENS} --renew --hmac aaaa", says=True),
        Step(f"{_TOKENS} --renew --hmac aaaa --renew-time-period 5 --expiry-time-period 4", says=True),
        Step(f"{_TOKENS} --expire --expiry-time-period 4", says=True),
        Step(f"{_TOKENS} --expire --hmac aaaa --expiry-time-period 4 --owner-principal User:a", says=True),
        Step(f"{_TOKENS} --describe --max-life-time-period 4", says=True),
        Step(f"{_TOKENS} --create --max-life-time-period -1 --renewer-principal bob", says=True),
        Step(f"{_TOKENS} --describe --owner-principal bob", says=True),
    ),
    "delegation-tokens-without-login": (
        Step(f"{_TOKENS} --create --max-life-time-period -1", says=True),
        Step(f"{_TOKENS} --renew --hmac aaaa --renew-time-period -1", says=True),
        Step(f"{_TOKENS} --expire --hmac aaaa --expiry-time-period -1", says=True),
        Step(f"{_TOKENS} --describe", says=True),
    ),
}
