"""The tokens of SASL OAUTHBEARER (RFC 7628, KIP-255, KIP-342)."""

from __future__ import annotations

import pytest

from moldau.errors import ProtocolError
from moldau.wire.protocol.sasl_tokens import (
    BearerError,
    BearerToken,
    decode_bearer,
    decode_bearer_error,
    encode_bearer,
    encode_bearer_error,
)

INVALID = "Invalid OAUTHBEARER client first message"


def test_a_token_is_encoded_as_the_java_client_does() -> None:
    assert encode_bearer(BearerToken("a.b-c_d.e")) == b"n,,\x01auth=Bearer a.b-c_d.e\x01\x01"
    with_all = BearerToken("a.b.c", {"traceId": "12 3", "lot": "7"}, "al,ice=")
    encoded = b"n,a=al=2Cice=3D,\x01auth=Bearer a.b.c\x01traceId=12 3\x01lot=7\x01\x01"
    assert encode_bearer(with_all) == encoded
    assert decode_bearer(encoded) == with_all


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"n,,\x01auth=bearer   x\x01\x01", BearerToken("x")),
        (b"n,,\x01host=h\x01auth=BEARER x~+/==\x01\x01", BearerToken("x~+/==", {"host": "h"})),
        (b"n,,\x01auth=Bearer x\x01k=a=b\r\n\t\x01\x01", BearerToken("x", {"k": "a=b\r\n\t"})),
    ],
)
def test_a_token_is_read(token: bytes, expected: BearerToken) -> None:
    assert decode_bearer(token) == expected


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"", INVALID),
        (b"\x01", INVALID),
        (b"n,,auth=Bearer x\x01\x01", INVALID),
        (b"y,,\x01auth=Bearer x\x01\x01", INVALID),
        (b"n,a=,\x01auth=Bearer x\x01\x01", INVALID),
        (b"n,,\x01auth=Bearer x\x01", INVALID),
        (b"n,,\x01auth=Bearer x\x01\x01\x01", INVALID),
        (b"n,,\x01auth=Bearer x\x01k=\x01\x01", INVALID),
        (b"n,,\x01auth=Bearer x\x01k1=v\x01\x01", INVALID),
        (b"n,,\x01auth=Bearer x\x01k=\xc3\xa4\x01\x01", INVALID),
        (b"n,,\x01auth=Bearer \xff\x01\x01", INVALID),
        (b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01", f"{INVALID}: a key comes twice"),
        (b"n,,\x01\x01", f"{INVALID}: 'auth' not specified"),
        (b"n,,\x01auth=Bearer\x01\x01", f"{INVALID}: invalid 'auth' format"),
        (b"n,,\x01auth=Bearer a b\x01\x01", f"{INVALID}: invalid 'auth' format"),
        (b"n,,\x01auth=Bearer a=b\x01\x01", f"{INVALID}: invalid 'auth' format"),
        (b"n,,\x01auth=Basic x\x01\x01", "Invalid scheme in OAUTHBEARER client first message"),
    ],
)
def test_what_is_no_token_is_refused(token: bytes, words: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_bearer(token)
    assert str(refused.value) == words


def test_a_long_token_is_refused_in_one_pass() -> None:
    with pytest.raises(ProtocolError):
        decode_bearer(b"n,,\x01" + b"k=v\x01" * 100_000 + b"auth=Bearer " + b"a" * 100_000)


@pytest.mark.parametrize(
    "token",
    [
        BearerToken(""),
        BearerToken("a b"),
        BearerToken("a\x01b"),
        BearerToken("a", {"auth": "x"}),
        BearerToken("a", {"k1": "x"}),
        BearerToken("a", {"k": ""}),
        BearerToken("a", {"k": "a\x01auth=Bearer b"}),
    ],
)
def test_what_the_mechanism_cannot_carry_is_not_encoded(token: BearerToken) -> None:
    with pytest.raises(ValueError):
        encode_bearer(token)


def test_the_error_of_a_server_is_a_json_object() -> None:
    assert encode_bearer_error(BearerError("invalid_token")) == b'{"status":"invalid_token"}'
    error = BearerError("insufficient_scope", "a b", "https://issuer/config")
    encoded = encode_bearer_error(error)
    assert encoded == (b'{"status":"insufficient_scope","scope":"a b","openid-configuration":"https://issuer/config"}')
    assert decode_bearer_error(encoded) == error
    assert decode_bearer_error(b'{"status":"invalid_token"}') == BearerError("invalid_token")


@pytest.mark.parametrize("token", [b"", b"\xff", b"[]", b"{}", b'{"status":1}', b'{"status":"a"'])
def test_what_is_no_error_of_a_server_is_refused(token: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_bearer_error(token)


def test_no_token_is_shown() -> None:
    assert "secret" not in repr(BearerToken("secret", {"k": "secret"}))
