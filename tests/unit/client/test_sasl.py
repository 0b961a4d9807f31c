"""SASL on the client's side: its messages, and the servers that it trusts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from moldau.client.protocol.sasl import authenticating, go_on
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from moldau.wire.protocol.sasl_tokens import (
    BEARER_ERROR_TAKEN,
    OAUTHBEARER,
    BearerToken,
    Credentials,
    ServerFinal,
    ServerFirst,
    decode_client_final,
    encode_server_final,
    encode_server_first,
    salted_password,
    server_key,
    signature,
)

PENCIL = Credentials("SCRAM-SHA-512", "a,b=c", "pencil")


def tokens(credentials: Credentials | BearerToken) -> Any:
    """An exchange after its handshake, and its first token."""
    mechanism = credentials.mechanism if isinstance(credentials, Credentials) else OAUTHBEARER
    exchange = authenticating(credentials, b"n" * 24, "broker:9092")
    assert go_on(exchange) == SaslHandshakeRequest(mechanism)
    request = go_on(exchange, SaslHandshakeResponse(0, (mechanism,)))
    assert isinstance(request, SaslAuthenticateRequest)
    return exchange, request.auth_bytes


def first_answer(first: bytes, *, iterations: int = 4_096, nonce: str | None = None) -> bytes:
    own = first.decode().rpartition("r=")[2]
    return encode_server_first(ServerFirst(own + "server" if nonce is None else nonce, b"salt", iterations)).encode()


def test_plain_sends_one_token_and_takes_the_lifetime_of_the_session() -> None:
    exchange, token = tokens(Credentials("plain", "alice", "secret"))
    assert token == b"\0alice\0secret"
    assert go_on(exchange, SaslAuthenticateResponse(session_lifetime_ms=3_600_000)) == 3_600_000


def test_scram_proves_the_password_and_checks_that_of_the_server() -> None:
    exchange, first = tokens(PENCIL)
    assert first.startswith(b"n,,n=a=2Cb=3Dc,r=")
    answer = first_answer(first)
    last = go_on(exchange, SaslAuthenticateResponse(auth_bytes=answer))
    assert isinstance(last, SaslAuthenticateRequest)
    final = decode_client_final(last.auth_bytes)
    message = f"{first.decode()[3:]},{answer.decode()},{final.unproven}"
    key = server_key(PENCIL.mechanism, salted_password(PENCIL.mechanism, "pencil", b"salt", 4_096))
    proven = encode_server_final(ServerFinal(signature(PENCIL.mechanism, key, message)))
    assert go_on(exchange, SaslAuthenticateResponse(auth_bytes=proven, session_lifetime_ms=5)) == 5


def test_a_delegation_token_logs_in_by_an_extension_that_the_proof_covers() -> None:
    token = Credentials("SCRAM-SHA-256", "token-id", "aG1hYw==", is_token=True)
    exchange, first = tokens(token)
    bare = first.decode().removeprefix("n,,")
    assert re.fullmatch("n=token-id,r=[^,]+,tokenauth=true", bare)
    answer = first_answer(first.removesuffix(b",tokenauth=true"))
    last = go_on(exchange, SaslAuthenticateResponse(auth_bytes=answer))
    assert isinstance(last, SaslAuthenticateRequest)
    final = decode_client_final(last.auth_bytes)
    key = server_key(token.mechanism, salted_password(token.mechanism, "aG1hYw==", b"salt", 4_096))
    proven = signature(token.mechanism, key, f"{bare},{answer.decode()},{final.unproven}")
    answered = SaslAuthenticateResponse(auth_bytes=encode_server_final(ServerFinal(proven)))
    assert go_on(exchange, answered) == 0


def test_a_delegation_token_cannot_log_in_by_plain_and_the_error_names_it() -> None:
    with pytest.raises(ValueError, match="a delegation token logs in by SCRAM-SHA-256 or SCRAM-SHA-512"):
        Credentials("PLAIN", "token-id", "aG1hYw==", is_token=True)
    exchange, _ = tokens(Credentials("SCRAM-SHA-256", "token-id", "aG1hYw==", is_token=True))
    with pytest.raises(KafkaError, match="refused the delegation token token-id: no reason"):
        go_on(exchange, SaslAuthenticateResponse(error_code=58, error_message=None))


@pytest.mark.parametrize(
    "final", [b"v=AAAA", b"v=", b"", b"e=other-error", encode_server_final(ServerFinal(b"\0" * 64))]
)
def test_a_server_that_does_not_know_the_password_is_not_followed(final: bytes) -> None:
    exchange, first = tokens(PENCIL)
    go_on(exchange, SaslAuthenticateResponse(auth_bytes=first_answer(first)))
    with pytest.raises(KafkaError, match="broker:9092 is not trusted") as refused:
        go_on(exchange, SaslAuthenticateResponse(auth_bytes=final))
    assert (refused.value.code, refused.value.is_retriable) == (58, False)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"iterations": 4_095}, "it asks for 4095 iterations"),
        ({"iterations": 2_000_000_000}, "it asks for 2000000000 iterations"),
        ({"nonce": "server"}, "its nonce does not go on"),
        ({"nonce": "bm5u" * 8}, "its nonce does not go on"),
    ],
)
def test_a_server_that_asks_for_too_little_or_too_much_is_not_followed(changed: dict[str, Any], words: str) -> None:
    exchange, first = tokens(PENCIL)
    with pytest.raises(KafkaError, match=words):
        go_on(exchange, SaslAuthenticateResponse(auth_bytes=first_answer(first, **changed)))


@pytest.mark.parametrize("answer", [b"", b"\xff", b"e=unknown-user", b"r=a,s=!,i=4096", b"r=a,s=AAAA,i=0"])
def test_a_first_answer_that_is_none_is_refused(answer: bytes) -> None:
    exchange, _ = tokens(PENCIL)
    with pytest.raises(KafkaError, match="is not trusted"):
        go_on(exchange, SaslAuthenticateResponse(auth_bytes=answer))


def test_a_refusal_names_broker_user_and_reason_and_no_password() -> None:
    exchange, _ = tokens(Credentials("PLAIN", "alice", "hidden"))
    with pytest.raises(KafkaError) as refused:
        go_on(exchange, SaslAuthenticateResponse(58, "Authentication failed: Invalid username or password"))
    assert str(refused.value) == (
        "broker:9092 refused the user alice: Authentication failed: Invalid username or password"
    )


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are() -> None:
    exchange = authenticating(PENCIL, b"n" * 24, "broker:9092")
    go_on(exchange)
    with pytest.raises(KafkaError, match="it offers PLAIN, GSSAPI") as refused:
        go_on(exchange, SaslHandshakeResponse(33, ("PLAIN", "GSSAPI")))
    assert refused.value.code == 33


def test_a_listener_without_sasl_is_told_apart() -> None:
    exchange = authenticating(PENCIL, b"n" * 24, "broker:9092")
    go_on(exchange)
    with pytest.raises(KafkaError, match="may be a listener without SASL"):
        go_on(exchange, SaslHandshakeResponse(34))


def test_credentials_do_not_show_their_password() -> None:
    assert repr(Credentials("PLAIN", "alice", "hidden")) == "Credentials(PLAIN, 'alice', ***)"


@pytest.mark.parametrize(
    ("mechanism", "username", "password"),
    [("GSSAPI", "a", "b"), ("PLAIN", "", "b"), ("PLAIN", "a", ""), ("PLAIN", "a\0", "b")],
)
def test_credentials_that_nobody_could_use_are_refused(mechanism: str, username: str, password: str) -> None:
    with pytest.raises(ValueError, match=r"SASL|username"):
        Credentials(mechanism, username, password)


def test_a_bearer_token_is_one_message_with_its_extensions() -> None:
    exchange, token = tokens(BearerToken("a.b.c", {"traceId": "1"}))
    assert token == b"n,,\x01auth=Bearer a.b.c\x01traceId=1\x01\x01"
    assert go_on(exchange, SaslAuthenticateResponse(session_lifetime_ms=60_000)) == 60_000


def test_a_refused_bearer_token_ends_the_exchange_as_the_rfc_says() -> None:
    exchange, _ = tokens(BearerToken("a.b.hidden"))
    last = go_on(exchange, SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    assert last == SaslAuthenticateRequest(BEARER_ERROR_TAKEN)
    with pytest.raises(KafkaError, match=r"refused the bearer token: expired \(status invalid_token\)") as refused:
        go_on(exchange, SaslAuthenticateResponse(58, "expired"))
    assert refused.value.name == "SASL_AUTHENTICATION_FAILED"
    assert "hidden" not in str(refused.value)


def test_a_server_that_lets_a_refused_bearer_token_in_is_not_believed() -> None:
    exchange, _ = tokens(BearerToken("a.b.c"))
    go_on(exchange, SaslAuthenticateResponse(auth_bytes=b"\x1b[31mno JSON"))
    with pytest.raises(KafkaError, match=r"no reason \(status unknown\)"):
        go_on(exchange, SaslAuthenticateResponse())


def test_a_token_that_the_mechanism_cannot_carry_is_not_sent() -> None:
    exchange = authenticating(BearerToken("a\x01auth=Bearer b"), b"n" * 24, "broker:9092")
    go_on(exchange)
    with pytest.raises(KafkaError, match="a bearer token is of letters"):
        go_on(exchange, SaslHandshakeResponse(0, (OAUTHBEARER,)))
