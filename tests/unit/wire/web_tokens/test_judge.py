"""Which tokens of an issuer are valid: the key fixes the algorithm, and the claims are checked at a given time."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from joserfc import jwk, jws
from joserfc.util import urlsafe_b64encode

from moldau.wire.web_tokens.judge import check_signed_token
from moldau.wire.web_tokens.key_set import ALGORITHMS, MAX_KEYS, KeySet, KeySetError, parse_key_set
from moldau.wire.web_tokens.rules import ClaimRules, TokenRefusedError, UnknownKeyError

NOW_S = 1_800_000_000
RULES = ClaimRules(("kafka",), "https://issuer", 30)
RSA = jwk.RSAKey.generate_key(2_048, private=True)
CURVES = {curve: jwk.ECKey.generate_key(curve, private=True) for curve in ("P-256", "P-384", "P-521")}
CURVE_OF = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
REGISTRY = jws.JWSRegistry(algorithms=[*ALGORITHMS, "HS256"], strict_check_header=False)


def key_of(algorithm: str) -> Any:
    return CURVES[CURVE_OF[algorithm]] if algorithm in CURVE_OF else RSA


def document(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def public(key: Any, **members: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), "kid": "k", **members}


def key_set(*keys: dict[str, Any]) -> KeySet:
    return parse_key_set(document(*keys))


def signed(algorithm: str = "RS256", key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
    chosen = {"iss": "https://issuer", "aud": "kafka", "sub": "alice", "iat": NOW_S, "exp": NOW_S + 60, **claims}
    payload = json.dumps({name: value for name, value in chosen.items() if value is not None})
    head = {"alg": algorithm, "kid": "k", **(header or {})}
    return jws.serialize_compact(head, payload, key or key_of(algorithm), registry=REGISTRY)


def without_kid(algorithm: str = "RS256", key: Any = None) -> str:
    data = jws.extract_compact(signed(algorithm, key).encode())
    return jws.serialize_compact({"alg": algorithm}, data.payload, key or key_of(algorithm), registry=REGISTRY)


def check(token: str, keys: KeySet | None = None, rules: ClaimRules = RULES) -> dict[str, Any]:
    valid = check_signed_token(token, keys or key_set(public(RSA)), rules, 1_000 * NOW_S)
    assert valid.expires_at_ms == 1_000 * valid.claims["exp"]
    return valid.claims


def refusal(token: str, keys: KeySet | None = None) -> str:
    with pytest.raises(TokenRefusedError) as refused:
        check(token, keys)
    return str(refused.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_is_believed_by_a_key_of_its_kind(algorithm: str) -> None:
    keys = key_set(public(key_of(algorithm)))
    assert check(signed(algorithm), keys)["sub"] == "alice"
    assert check(signed(algorithm), key_set(public(key_of(algorithm), alg=algorithm)))
    token = signed(algorithm)
    changed = token[:-8] + ("AAAAAAAA" if token[-8:] != "AAAAAAAA" else "BBBBBBBB")
    assert refusal(changed, keys) == "its signature is wrong"


def test_a_key_with_an_algorithm_verifies_no_other() -> None:
    keys = key_set(public(RSA, alg="PS256"))
    assert refusal(signed("RS256"), keys) == "its alg is RS256, and its key is for others"
    assert check(signed("PS256"), keys)
    assert "its key is for others" in refusal(signed("ES384"), key_set(public(CURVES["P-256"])))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS1", "EdDSA", "", None, 7, ["RS256"]])
def test_no_other_algorithm_is_believed(algorithm: object) -> None:
    _, claims, signature = signed().split(".")
    header = jws.extract_compact(signed().encode()).headers()
    head = urlsafe_b64encode(json.dumps({**header, "alg": algorithm}).encode()).decode()
    assert refusal(f"{head}.{claims}.{signature}") == f"its alg is {algorithm!r}"


def test_the_public_key_is_no_secret_to_sign_with() -> None:
    head = urlsafe_b64encode(b'{"alg": "HS256", "kid": "k"}').decode()
    data = f"{head}.{signed().split('.')[1]}"
    mac = hmac.digest(RSA.as_pem(private=False), data.encode(), hashlib.sha256)
    assert refusal(f"{data}.{urlsafe_b64encode(mac).decode()}") == "its alg is 'HS256'"


def test_keys_in_the_token_itself_are_not_looked_at() -> None:
    stranger = jwk.RSAKey.generate_key(2_048, private=True)
    own = {"jwk": stranger.as_dict(private=False), "jku": "http://127.0.0.1/jwks"}
    assert refusal(signed(key=stranger, header=own)) == "its signature is wrong"


def test_a_token_of_an_unknown_key_says_so() -> None:
    with pytest.raises(UnknownKeyError, match="no key of the issuer has its kid 'other'"):
        check(signed(header={"kid": "other"}))


def test_a_token_that_names_no_key_is_checked_by_the_only_one() -> None:
    assert check(without_kid())
    assert check(without_kid("PS256"))
    with pytest.raises(UnknownKeyError, match="its signature is wrong"):
        check(without_kid(key=jwk.RSAKey.generate_key(2_048, private=True)))
    with pytest.raises(UnknownKeyError, match="its key is for others"):
        check(without_kid("ES256"))


@pytest.mark.parametrize("others", [[public(CURVES["P-256"], kid="j")], [public(RSA, kid="j")]])
def test_a_token_that_names_no_key_is_rejected_where_there_are_several(others: list[dict[str, Any]]) -> None:
    keys = key_set(public(RSA), *others)
    assert check(signed(), keys)
    assert refusal(without_kid(), keys) == "its kid is missing, and the issuer has 2 keys"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": None}, "it has no exp"),
        ({"iat": None}, "it has no iat"),
        ({"exp": NOW_S - 30, "iat": NOW_S - 90}, "it has expired 30 s ago"),
        ({"nbf": NOW_S + 31}, "it is valid in 31 s only"),
        ({"exp": True}, "its exp is no time"),
        ({"exp": 1e300}, "its exp is no time"),
        ({"exp": 10**4_000}, "its exp is no time"),
        ({"iat": "now"}, "its iat is no time"),
        ({"nbf": [1]}, "its nbf is no time"),
        ({"iat": NOW_S + 61}, "it ends before it begins"),
        ({"iss": "https://issuer/"}, "its iss is 'https://issuer/'"),
        ({"aud": "kafka2"}, "its aud is 'kafka2'"),
        ({"aud": [["kafka"], {"kafka": 1}]}, "its aud is"),
    ],
)
def test_claims_are_judged(claims: dict[str, Any], words: str) -> None:
    assert words in refusal(signed(**claims))


def test_clocks_may_be_apart_by_the_skew() -> None:
    assert check(signed(exp=NOW_S - 29, iat=NOW_S - 90))
    assert check(signed(nbf=NOW_S + 30))


def test_rules_may_ask_for_less() -> None:
    assert check(signed(iss="x", aud="y"), rules=ClaimRules((), None, 0))


@pytest.mark.parametrize("token", ["", ".", "..", "a.b", "a.b.c.d", "a.b.c=", "a.b.\u00e4", "A" * 20_000, "a.a.a"])
def test_what_is_no_token_is_refused(token: str) -> None:
    assert refusal(token)


@pytest.mark.parametrize(
    "header", [{"crit": ["exp"]}, {"b64": False}, {"kid": 7}, {"kid": None}, {"x5c": 7}, {"typ": {}}]
)
def test_headers_that_must_be_understood_or_are_malformed_are_refused(header: dict[str, Any]) -> None:
    _, claims, signature = signed().split(".")
    head = urlsafe_b64encode(json.dumps({"alg": "RS256", "kid": "k", **header}).encode()).decode()
    assert refusal(f"{head}.{claims}.{signature}")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ({"kty": "oct", "k": "c2VjcmV0", "kid": "k"}, "is a secret or private key"),
        ({**RSA.as_dict(private=True), "kid": "k"}, "is a secret or private key"),
        (public(RSA, kid=None), "its kid is no text"),
        (public(RSA, kid="k" * 257), "its kid is no text"),
        (public(RSA, use="enc"), "is not for signatures"),
        (public(RSA, key_ops=["encrypt"]), "is not for signatures"),
        (public(RSA, key_ops=None), "is not for signatures"),
        (public(RSA, key_ops=7), "is not for signatures"),
        (public(RSA, n="AQAB"), "has 17 bits"),
        (public(RSA, alg="HS256"), "its alg is not one of"),
        (public(RSA, alg=["RS256"]), "its alg is not one of"),
        (public(RSA, n="gA" + "A" * 168 + "E"), "has 1024 bits"),
        (public(RSA, e="_" * 2_000), "has 2048 bits"),
        (public(RSA, n=7), "is malformed"),
        (public(CURVES["P-256"], x="AA"), "is malformed"),
        (public(CURVES["P-256"], crv="secp256k1"), "is neither"),
        (public(CURVES["P-256"], crv=["P-256"]), "is neither"),
        ({"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "k"}, "is neither"),
        (7, "it is no object"),
    ],
)
def test_a_key_that_cannot_be_used_is_passed_over(key: Any, words: str) -> None:
    with pytest.raises(KeySetError, match="has no key that can be used") as refused:
        key_set(key)
    assert words in str(refused.value)
    keys = key_set(key, public(CURVES["P-256"]))
    assert len(keys) == len(keys.passed_over) == 1
    assert check(signed("ES256"), keys)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"keys": {}}', b'{"keys": [], "keys": []}', b"\xff", b"[" * 100_000, b"<html>", b" " * 2**21],
)
def test_what_is_no_set_of_keys_is_refused(data: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_key_set(data)


def test_more_keys_than_the_bound_are_refused() -> None:
    keys = [public(RSA, kid=str(number)) for number in range(MAX_KEYS + 1)]
    assert len(key_set(*keys[:-1])) == MAX_KEYS
    with pytest.raises(KeySetError, match="has 101 keys, and 100 are read"):
        key_set(*keys)
