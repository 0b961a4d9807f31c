"""SASL OAUTHBEARER on the server's side: one token, its rejection in two steps, and when keys are fetched again."""

from __future__ import annotations

import pytest

from moldau.core.authentication.bearer import Bearer, BearerExchange
from moldau.core.authentication.bearer_settings import KeySource
from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.core.authentication.key_refresh import MIN_INTERVAL_S, KeyRefresh
from moldau.wire.protocol.sasl_tokens import BearerToken, encode_bearer
from moldau.wire.web_tokens.rules import TokenRefusedError

NOW_MS = 1_000_000
INVALID = b'{"status":"invalid_token"}'
MIN_INTERVAL_MS = 1_000 * MIN_INTERVAL_S
SOURCE = KeySource("https://issuer/jwks", 3_600_000, 100, 1_000)


def exchange() -> BearerExchange:
    def check(token: str) -> Bearer:
        if token != "good":
            raise TokenRefusedError("it is bad")
        return Bearer("alice", NOW_MS + 5_000)

    return BearerExchange(check, lambda: NOW_MS)


def refusal(begun: BearerExchange, token: bytes) -> AuthenticationRefusedError:
    with pytest.raises(AuthenticationRefusedError) as refused:
        begun.evaluate(token)
    return refused.value


def test_a_good_token_is_accepted_for_as_long_as_it_lives() -> None:
    expected = Accepted("alice", lifetime_ms=5_000)
    assert exchange().evaluate(encode_bearer(BearerToken("good"))) == expected
    assert exchange().evaluate(encode_bearer(BearerToken("good", {"traceId": "1"}, "alice"))) == expected


def test_a_bad_token_is_answered_and_then_refused() -> None:
    begun = exchange()
    assert begun.evaluate(encode_bearer(BearerToken("bad"))) == INVALID
    refused = refusal(begun, b"\x01")
    assert (str(refused), refused.told) == ("refused token: it is bad", INVALID.decode())


def test_after_a_bad_token_no_other_is_looked_at() -> None:
    begun = exchange()
    begun.evaluate(encode_bearer(BearerToken("bad")))
    assert refusal(begun, encode_bearer(BearerToken("good"))).told == ""


def test_what_is_no_token_is_refused_at_once_without_a_reason() -> None:
    refused = refusal(exchange(), b"\x01")
    assert (str(refused), refused.told) == ("Invalid OAUTHBEARER client first message", "")


def test_another_identity_is_refused_in_kafkas_words() -> None:
    refused = refusal(exchange(), encode_bearer(BearerToken("good", {}, "bob")))
    assert refused.told == (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)"
    )


def test_keys_are_fetched_again_after_the_interval() -> None:
    refresh = KeyRefresh(SOURCE, 0)
    assert refresh.due_ms == 3_600_000
    refresh.fetched(50)
    assert refresh.due_ms == 3_600_050


def test_the_pauses_after_failures_double_up_to_the_greatest() -> None:
    refresh = KeyRefresh(SOURCE, 0)
    pauses = []
    for _ in range(40):
        refresh.failed(7)
        pauses.append(refresh.due_ms - 7)
    assert pauses[:5] == [100, 200, 400, 800, 1_000]
    assert set(pauses[5:]) == {1_000}
    refresh.fetched(9)
    assert refresh.due_ms == 3_600_009


def test_an_unknown_key_brings_the_next_fetch_forward_once() -> None:
    refresh = KeyRefresh(SOURCE, 0)
    assert refresh.key_is_unknown(10)
    assert refresh.due_ms == MIN_INTERVAL_MS
    assert not refresh.key_is_unknown(11)
    refresh.fetched(MIN_INTERVAL_MS)
    later_ms = 5 * MIN_INTERVAL_MS
    assert refresh.key_is_unknown(later_ms)
    assert refresh.due_ms == later_ms


def test_an_unknown_key_shortens_no_pause_after_a_failure() -> None:
    refresh = KeyRefresh(KeySource("https://issuer/jwks", 3_600_000, 60_000, 60_000), 0)
    refresh.failed(0)
    assert not refresh.key_is_unknown(MIN_INTERVAL_MS)
    assert refresh.due_ms == 60_000
