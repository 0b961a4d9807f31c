"""Logins by OAUTHBEARER as bytes: a broker's answer to a token, and a table of tokens that it must distinguish."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, get_args

from moldau.wire.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.protocol.sasl_tokens import OAUTHBEARER, BearerToken, encode_bearer
from tests.support.issuer import Issuer
from tests.support.json_web_tokens import Forgery, Kind, SigningKey, signed
from tests.support.wire import Closed, RawConnection

INVALID = '{"status":"invalid_token"}'
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
DAY_S = 86_400


class Outcome(NamedTuple):
    """`error`: the broker's answer to a token in the exchange; `code` and `told`: of its last answer."""

    code: int
    told: str
    error: str
    lifetime_ms: int

    @property
    def is_admitted(self) -> bool:
        return self.code == 0 and not self.error


def log_in(servers: str, token: str | bytes) -> Outcome:
    """`token`: a JWT, or the client's whole message."""
    with RawConnection(servers) as connection:
        return exchange(connection, token)


def exchange(connection: RawConnection, token: str | bytes) -> Outcome:
    """As `log_in`, on a connection that stays open."""
    handshake = connection.ask(SaslHandshakeRequest(OAUTHBEARER), 1)
    assert handshake.error_code == 0, handshake
    first = token if isinstance(token, bytes) else encode_bearer(BearerToken(token))
    answer = connection.ask(SaslAuthenticateRequest(first), 2)
    error = bytes(answer.auth_bytes).decode()
    if error:
        assert answer.error_code == 0, answer
        answer = connection.ask(SaslAuthenticateRequest(b"\x01"), 2)
        with suppress(Closed):
            connection.receive_frame()
            raise AssertionError("the connection goes on after a refused token")
    return Outcome(answer.error_code, answer.error_message or "", error, answer.session_lifetime_ms)


class Row(NamedTuple):
    token: str | bytes
    is_admitted: bool


def token_rows(issuer: Issuer, key: SigningKey) -> dict[str, Row]:
    """With the one key that `issuer` publishes. Apache Kafka, brokers and services of Moldau agree on each."""
    now = int(time.time())
    claims = issuer.claims("alice")
    return {
        "good": Row(issuer.token("alice"), True),
        "good with a list of audiences": Row(issuer.token("alice", aud=["x", "kafka"]), True),
        "good with a scope": Row(issuer.token("alice", scope="read write"), True),
        "good with scopes": Row(issuer.token("alice", scope=["read", "write"]), True),
        "good without nbf": Row(signed(key, _without(claims, "nbf")), True),
        "no kid": Row(without_kid(issuer, key), True),
        "issued in the future": Row(issuer.token("alice", iat=now + 600), True),
        "expired within the skew": Row(issuer.token("alice", iat=now - 60, nbf=now - 60, exp=now - 5), True),
        "fractions of seconds": Row(issuer.token("alice", exp=now + 600.5), True),
        "an unknown header": Row(signed(key, claims, {"x": 1}), True),
        "type of an access token": Row(signed(key, claims, {"typ": "at+jwt"}), True),
        **{name: Row(issuer.token("alice", forgery=name), False) for name in get_args(Forgery)},
        "a kid that is a number": Row(signed(key, claims, {"kid": 1}), False),
        "no kid, and another key": Row(without_kid(issuer, SigningKey(kind_of(key))), False),
        "no iat": Row(signed(key, _without(claims, "iat")), False),
        "no sub": Row(signed(key, _without(claims, "sub")), False),
        "no audience": Row(signed(key, _without(claims, "aud")), False),
        "no issuer": Row(signed(key, _without(claims, "iss")), False),
        "a sub that is a number": Row(issuer.token("alice", sub=7), False),
        "a blank sub": Row(issuer.token("alice", sub=" "), False),
        "an empty sub": Row(issuer.token(""), False),
        "an exp that is text": Row(issuer.token("alice", exp=str(now + 600)), False),
        "an exp that is negative": Row(issuer.token("alice", exp=-1), False),
        "an exp before iat": Row(issuer.token("alice", iat=now + 900, exp=now + 600), False),
        "an exp before nbf": Row(issuer.token("alice", nbf=now + 20, exp=now + 10), False),
        "expired two minutes ago": Row(issuer.token("alice", iat=now - 180, nbf=now - 180, exp=now - 120), False),
        "valid in two minutes": Row(issuer.token("alice", nbf=now + 120), False),
        "a member twice in the claims": Row(_doubled(key, claims, in_header=False), False),
        "a member twice in the header": Row(_doubled(key, claims, in_header=True), False),
        "claims that are no object": Row(_signed_raw(key, _header(key), [1]), False),
        "claims that are no JSON": Row(_signed_text(key, json.dumps(_header(key)), "claims"), False),
        "an unknown critical header": Row(signed(key, claims, {"crit": ["x"], "x": 1}), False),
        "another algorithm of its key": Row(signed(key, claims, {"alg": _OTHER[key.algorithm]}), False),
        "two parts": Row(issuer.token("alice").rpartition(".")[0], False),
        "four parts": Row(issuer.token("alice") + ".x", False),
        "no token": Row("x", False),
    }


def rows(issuer: Issuer, key: SigningKey) -> dict[str, Row]:
    """As `token_rows`, with further rows that only a broker checks. Apache Kafka and Moldau agree on each."""
    return token_rows(issuer, key) | {
        "extensions": Row(encode_bearer(BearerToken(issuer.token("alice"), {"traceId": "1"})), True),
        "its own authorization id": Row(encode_bearer(BearerToken(issuer.token("alice"), {}, "alice")), True),
        "an empty scope": Row(issuer.token("alice", scope=""), False),
        "a scope twice": Row(issuer.token("alice", scope=["a", "a"]), False),
        "another authorization id": Row(encode_bearer(BearerToken(issuer.token("alice"), {}, "bob")), False),
        "no first message": Row(b"x", False),
        "an error taken at first": Row(b"\x01", False),
        "nothing": Row(b"", False),
    }


_OTHER = {"RS256": "RS512", "ES256": "RS256"}


def stricter_rows(issuer: Issuer) -> dict[str, Row]:
    """Apache Kafka accepts these, and Moldau does not."""
    return {
        "a sub with a line break": Row(issuer.token("alice\nUser:admin"), False),
        "a sub of 2,000 characters": Row(issuer.token("a" * 2_000), False),
        "huge claims": Row(issuer.token("alice", padding="x" * 20_000), False),
    }


def without_kid(issuer: Issuer, key: SigningKey) -> str:
    return _signed_raw(key, {"alg": key.algorithm, "typ": "JWT"}, issuer.claims("alice"))


def kind_of(key: SigningKey) -> Kind:
    return "RSA" if key.algorithm == "RS256" else "EC"


def _header(key: SigningKey) -> dict[str, str]:
    return {"alg": key.algorithm, "typ": "JWT", "kid": key.kid}


def _without(claims: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in claims.items() if each != name}


def _doubled(key: SigningKey, claims: Mapping[str, Any], *, in_header: bool) -> str:
    head, body = json.dumps(_header(key)), json.dumps(claims)
    if in_header:
        return _signed_text(key, head[:-1] + f', "kid": "{key.kid}"}}', body)
    return _signed_text(key, head, body[:-1] + ', "sub": "admin"}')


def _signed_raw(key: SigningKey, header: object, claims: object) -> str:
    return _signed_text(key, json.dumps(header), json.dumps(claims))


def _signed_text(key: SigningKey, header: str, claims: str) -> str:
    data = f"{_text64(header.encode())}.{_text64(claims.encode())}"
    return f"{data}.{_text64(key.sign(data.encode()))}"


def _text64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
