"""One connection that authenticates: the frames that it may send, and their results."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.core.authentication.attempts import MAX_WAITING, FailedAttempts
from moldau.core.authentication.authentication import (
    MAX_TOKEN_BYTES,
    REAUTHENTICATION_INTERVAL_MS,
    Admit,
    Answer,
    Authentication,
    Close,
    Output,
    Refuse,
    Serve,
)
from moldau.core.authentication.mechanisms import ListenerMechanisms
from moldau.core.authentication.settings import SaslSettings
from moldau.shell.io.simulated.random import SeededRandom
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.unit.core.authentication.conftest import ScramClient, Users

MECHANISMS = ("SCRAM-SHA-256", "PLAIN")
INVALID_SCRAM = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
)
RIGHT = b"\0alice\0secret"


class Connection:
    """A machine, and its client's frames. Responses come decoded."""

    def __init__(self, *, session_ms: int = 0, attempts: FailedAttempts | None = None) -> None:
        self.users = Users()
        self.users.add("alice", "pencil")
        settings = SaslSettings(MECHANISMS, {"alice": "secret", "bob": "other"}, dict.fromkeys(MECHANISMS, session_ms))
        mechanisms = ListenerMechanisms(settings, self.users.directory, SeededRandom(1), b"s" * 32)
        counted = FailedAttempts(100) if attempts is None else attempts
        self.machine = Authentication(mechanisms, counted, "10.0.0.7")
        self.now_ms = 0

    def send(self, key: ApiKey, version: int, request: msgspec.Struct) -> tuple[Output, ...]:
        head = encode_request_header(RequestHeader(key, version, 7, "test"))
        return self.machine.step(head + encode_message(request, version), self.now_ms)

    def handshake(self, mechanism: str, version: int = 1) -> tuple[Output, ...]:
        return self.send(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))

    def token(self, token: bytes, version: int = 2) -> tuple[Output, ...]:
        return self.send(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))

    def plain(self, token: bytes = RIGHT, version: int = 2) -> tuple[Output, ...]:
        assert decoded(self.handshake("PLAIN")[0], ApiKey.SASL_HANDSHAKE, 1).error_code == 0
        return self.token(token, version)

    def scram(self, client: ScramClient) -> tuple[Output, ...]:
        self.handshake(client.mechanism)
        (output,) = self.token(client.first())
        return self.token(client.final(decoded(output).auth_bytes))


def decoded(output: Output, key: ApiKey = ApiKey.SASL_AUTHENTICATE, version: int = 2) -> Any:
    """The response that is sent."""
    assert isinstance(output, Answer | Refuse)
    assert output.response is not None
    body = output.response[4:]
    assert int.from_bytes(output.response[:4], "big") == len(body)
    correlation_id, position = decode_response_header(body, response_header_version(int(key), version))
    assert correlation_id == 7
    return decode_message(API_VERSIONS[key].response, version, body, position)[0]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_of_plain_is_admitted_and_answered(version: int) -> None:
    connection = Connection()
    admitted, answer = connection.plain(version=version)
    assert admitted == Admit("User:alice", "PLAIN", None)
    assert decoded(answer, version=version).error_code == 0
    assert connection.machine.is_open


def test_a_client_of_scram_is_admitted_and_gets_the_servers_signature() -> None:
    connection = Connection()
    admitted, answer = connection.scram(ScramClient("alice", "pencil"))
    assert admitted == Admit("User:alice", "SCRAM-SHA-256", None)
    assert decoded(answer).auth_bytes.startswith(b"v=")


def test_api_versions_are_served_before_the_handshake_as_often_as_they_are_asked() -> None:
    connection = Connection()
    for version in (0, 3, 99):
        assert connection.send(ApiKey.API_VERSIONS, min(version, 3), ApiVersionsRequest()) == (Serve(),)
    assert connection.plain()[0] == Admit("User:alice", "PLAIN", None)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"\0\x11",
        b"\0\x11\0\1\0\0\0\7",
        b"\0\x11\0\1\0\0\0\7\xff\xff",
        b"\0\x11\0\1\0\0\0\7\xff\xff\0\x50PLAIN",
        b"\0\x11\0\2\0\0\0\7\xff\xff\0\5PLAIN",
        b"\0\x24\0\2\0\0\0\7\xff\xff\0\0",
        b"\3\xe7\0\0\0\0\0\7\xff\xff",
        b"\xff\xff\0\0\0\0\0\7\xff\xff",
    ],
)
def test_any_other_frame_before_the_handshake_ends_the_connection_without_a_code(frame: bytes) -> None:
    connection = Connection()
    (output,) = connection.machine.step(frame, 0)
    assert isinstance(output, Close)
    assert output.reason
    assert connection.machine.step(b"\0\x12", 0) == (Close(""),)


def test_a_request_or_an_early_token_ends_the_connection() -> None:
    for send in (lambda one: one.send(ApiKey.METADATA, 9, MetadataRequest()), lambda one: one.token(RIGHT)):
        assert isinstance(send(Connection())[0], Close)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "SCRAM-SHA-512", "", "\x1b[31m" * 1_000])
def test_a_mechanism_that_is_not_offered_is_refused_with_the_list(mechanism: str) -> None:
    (output,) = Connection().handshake(mechanism)
    assert isinstance(output, Refuse)
    assert output.delay_ms == 100
    answer = decoded(output, ApiKey.SASL_HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (33, MECHANISMS)
    assert len(output.reason) < 200


def test_a_request_between_handshake_and_token_gets_an_empty_answer_and_the_end() -> None:
    connection = Connection()
    connection.handshake("PLAIN")
    (output,) = connection.handshake("PLAIN")
    assert isinstance(output, Refuse)
    assert decoded(output, ApiKey.SASL_HANDSHAKE, 1).error_code == 34
    connection = Connection()
    connection.handshake("PLAIN")
    (output,) = connection.send(ApiKey.METADATA, 9, MetadataRequest())
    assert isinstance(output, Refuse)
    assert decoded(output, ApiKey.METADATA, 9).topics == ()


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"garbage", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_a_refused_client_of_plain_is_told_why_after_a_delay(token: bytes, told: str) -> None:
    connection = Connection()
    (output,) = connection.plain(token)
    assert isinstance(output, Refuse)
    assert (decoded(output).error_code, decoded(output).error_message, output.delay_ms) == (58, told, 100)
    assert connection.machine.admitted is None
    assert connection.token(RIGHT) == (Close(""),)


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_a_refused_client_of_scram_is_told_the_same_whoever_it_is(name: str) -> None:
    (output,) = Connection().scram(ScramClient(name, "wrong"))
    assert isinstance(output, Refuse)
    assert (decoded(output).error_code, decoded(output).error_message) == (58, INVALID_SCRAM)


def test_tokens_go_without_headers_after_a_handshake_of_version_0() -> None:
    connection = Connection()
    connection.handshake("PLAIN", version=0)
    assert connection.machine.step(RIGHT, 0) == (Admit("User:alice", "PLAIN", None), Answer(b"\0\0\0\0"))
    connection = Connection()
    connection.handshake("PLAIN", version=0)
    (output,) = connection.machine.step(b"\0alice\0wrong", 0)
    assert isinstance(output, Refuse)
    assert output.response is None


def test_too_many_refused_connections_of_an_address_end_without_an_answer() -> None:
    attempts = FailedAttempts(100)
    for _ in range(MAX_WAITING):
        Connection(attempts=attempts).plain(b"\0alice\0wrong")
    (output,) = Connection(attempts=attempts).plain(b"\0alice\0wrong")
    assert isinstance(output, Refuse)
    assert output.delay_ms is None


# -- sessions that end (KIP-368)


def admitted(session_ms: int = 10_000) -> Connection:
    connection = Connection(session_ms=session_ms)
    connection.plain()
    return connection


def test_the_client_is_told_how_long_its_session_lasts() -> None:
    connection = Connection(session_ms=10_000)
    connection.now_ms = 500
    admitted, answer = connection.plain()
    assert admitted == Admit("User:alice", "PLAIN", 10_500)
    assert decoded(answer).session_lifetime_ms == 10_000
    assert not connection.machine.is_open


def test_a_request_after_the_end_of_the_session_ends_the_connection_silently() -> None:
    connection = admitted()
    connection.now_ms = 10_000
    assert connection.send(ApiKey.METADATA, 9, MetadataRequest()) == (Serve(),)
    connection.now_ms = 10_001
    assert connection.send(ApiKey.METADATA, 9, MetadataRequest()) == (Close(""),)


def test_a_client_authenticates_again_in_place_also_when_its_session_is_over() -> None:
    connection = admitted()
    for _ in range(3):
        connection.now_ms += 11_000
        again, answer = connection.plain()
        assert again == Admit("User:alice", "PLAIN", connection.now_ms + 10_000)
        assert decoded(answer).error_code == 0
        assert connection.send(ApiKey.METADATA, 9, MetadataRequest()) == (Serve(),)


def test_another_user_or_mechanism_or_a_wrong_password_does_not_authenticate_again() -> None:
    connection = admitted()
    (output,) = connection.plain(b"\0bob\0other")
    told = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert (decoded(output).error_code, decoded(output).error_message) == (58, told)
    connection = admitted()
    (output,) = connection.handshake("SCRAM-SHA-256")
    assert decoded(output, ApiKey.SASL_HANDSHAKE, 1).error_code == 0
    (output,) = connection.token(ScramClient("alice", "pencil").first())
    assert isinstance(output, Refuse)
    assert output.response is None
    connection = Connection(session_ms=10_000)
    connection.scram(ScramClient("alice", "pencil"))
    (output,) = connection.scram(ScramClient("alice", "wrong"))
    assert decoded(output).error_message == INVALID_SCRAM.replace("during auth", "during re-auth")


def test_requests_between_the_tokens_of_another_authentication_are_not_served() -> None:
    connection = admitted()
    connection.handshake("PLAIN")
    assert isinstance(connection.send(ApiKey.METADATA, 9, MetadataRequest())[0], Refuse)


def test_a_client_authenticates_again_at_most_once_a_second() -> None:
    connection = admitted()
    connection.plain()
    connection.now_ms = REAUTHENTICATION_INTERVAL_MS - 1
    assert connection.handshake("PLAIN") == (Serve(),)
    connection.now_ms = REAUTHENTICATION_INTERVAL_MS
    assert isinstance(connection.plain()[0], Admit)


def test_a_handshake_on_a_session_without_an_end_goes_to_the_handlers() -> None:
    connection = Connection()
    connection.plain()
    assert connection.handshake("PLAIN") == (Serve(),)


# -- unauthenticated clients


@given(st.sampled_from(["nothing", "handshake 0", "handshake 1", "first message", "session"]), st.binary(max_size=64))
@example("handshake 1", b"\3\xe7\0\0\0\0\0\7\xff\xff")
@example("handshake 1", b"\xff\xff\0\0\0\0\0\7\xff\xff")
@example("session", b"\x00")
def test_any_frame_at_any_time_has_an_outcome_and_lets_nobody_in(begun: str, frame: bytes) -> None:
    connection = Connection(session_ms=1_000 if begun == "session" else 0)
    if begun == "session":
        connection.plain()
    elif begun == "first message":
        connection.handshake("SCRAM-SHA-256")
        connection.token(ScramClient("alice", "pencil").first())
    elif begun != "nothing":
        connection.handshake("PLAIN", version=int(begun[-1]))
    outputs = connection.machine.step(frame, 0)
    assert outputs
    assert not any(isinstance(output, Admit) for output in outputs)


@pytest.mark.parametrize("version", [0, 1])
def test_a_token_that_no_client_needs_is_refused_unread(version: int) -> None:
    connection = Connection()
    connection.handshake("SCRAM-SHA-256", version=version)
    token = b"n,,n=".ljust(MAX_TOKEN_BYTES, b"a") + b",r=abc"
    (output,) = connection.token(token) if version else connection.machine.step(token, 0)
    assert isinstance(output, Refuse)
    assert f"a token of {len(token)} bytes, and {MAX_TOKEN_BYTES} are read" in output.reason
    assert output.delay_ms == 100
