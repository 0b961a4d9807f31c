"""Verifies a JSON Web Token (RFC 7519): its signature, its audience, its time.

The key fixes the algorithm. A token without `kid` is verified with the issuer's only key, and rejected if the issuer
has several (OpenID Connect Core, 10.1). Claims are checked as in Apache Kafka.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec
from joserfc import jws
from joserfc.errors import JoseError

from moldau.wire.web_tokens.key_set import ALGORITHMS, KeySet, parse_object
from moldau.wire.web_tokens.rules import ClaimRules, TokenRefusedError, UnknownKeyError

MAX_WEB_TOKEN: Final = 16 << 10
"""In characters."""
MAX_SECONDS: Final = 1 << 40
"""The largest time in seconds since the epoch: 36,000 years."""
_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


def _registry() -> jws.JWSRegistry:
    registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = MAX_WEB_TOKEN
    return registry


_REGISTRY: Final = _registry()


class WebToken(msgspec.Struct, frozen=True):
    """A valid token. `expires_at_ms`: since the epoch."""

    claims: dict[str, Any]
    expires_at_ms: int


def check_signed_token(token: str, keys: KeySet, rules: ClaimRules, now_ms: int) -> WebToken:
    """`now_ms`: since the epoch. Takes a fraction of a millisecond of CPU. Raises TokenRefusedError; UnknownKeyError if
    a newer key may fit."""
    match = None if len(token) > MAX_WEB_TOKEN else _PARTS.fullmatch(token)
    if match is None:
        raise TokenRefusedError("it is no JWT of three parts")
    _check_signature(token, _object_of(match[1], "header"), keys)
    claims = _object_of(match[2], "claims")
    expires_s = _check_times(claims, rules.skew_s, now_ms // 1_000)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefusedError(f"its iss is {claims.get('iss')!r}")
    _check_audience(claims.get("aud"), rules.audiences)
    return WebToken(claims, expires_s * 1_000)


def _check_signature(token: str, header: dict[str, Any], keys: KeySet) -> None:
    algorithm, names_key = header.get("alg"), "kid" in header
    if algorithm not in ALGORITHMS:
        raise TokenRefusedError(f"its alg is {algorithm!r}")
    if "crit" in header or "b64" in header:
        raise TokenRefusedError("its header has extensions that must be understood")
    key_id = header["kid"] if names_key else keys.only_id
    if not isinstance(key_id, str):
        told = "is no text" if names_key else f"is missing, and the issuer has {len(keys)} keys"
        raise TokenRefusedError(f"its kid {told}")
    if key_id not in keys:
        raise UnknownKeyError(f"no key of the issuer has its kid {key_id!r}")
    refused = TokenRefusedError if names_key else UnknownKeyError  # the only known key may be an old one
    key = keys.find(key_id, algorithm)
    if key is None:
        raise refused(f"its alg is {algorithm}, and its key is for others")
    try:
        jws.deserialize_compact(token, key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError):
        raise refused("its signature is wrong") from None


def _check_times(claims: dict[str, Any], skew_s: int, now_s: int) -> int:
    """The expiry time. Raises TokenRefusedError."""
    expires, issued, begins = (_seconds(claims, name) for name in ("exp", "iat", "nbf"))
    if expires is None or issued is None:
        raise TokenRefusedError(f"it has no {'exp' if expires is None else 'iat'}")
    if now_s - skew_s >= expires:
        raise TokenRefusedError(f"it has expired {now_s - expires} s ago")
    if begins is not None and now_s + skew_s < begins:
        raise TokenRefusedError(f"it is valid in {begins - now_s} s only")
    if expires < issued or (begins is not None and expires < begins):
        raise TokenRefusedError("it ends before it begins")
    return expires


def _seconds(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_SECONDS:
        raise TokenRefusedError(f"its {name} is no time")
    return int(value)


def _check_audience(named: object, expected: tuple[str, ...]) -> None:
    if not expected:
        return
    audiences = named if isinstance(named, list) else [named]
    if not any(isinstance(each, str) and each in expected for each in audiences):
        raise TokenRefusedError(f"its aud is {named!r}")


def _object_of(part: str, name: str) -> dict[str, Any]:
    try:
        found = parse_object(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        found = None
    if found is None:
        raise TokenRefusedError(f"its {name} are no JSON object whose members differ")
    return found
