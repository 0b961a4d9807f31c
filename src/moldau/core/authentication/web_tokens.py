"""Whether a JSON Web Token (RFC 7519) is one of the issuer's, for this cluster, and valid now; and whose it is.

The claims are judged as Apache Kafka does. Moldau also refuses a token without `kid`, and a user whose name is longer
than MAX_SUBJECT or holds a character that cannot be printed.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec
from joserfc import jws
from joserfc.errors import JoseError

from moldau.core.authentication.bearer import Bearer, TokenRefusedError, UnknownKeyError
from moldau.core.authentication.bearer_settings import TokenRules
from moldau.core.authentication.key_set import ALGORITHMS, KeySet, parse_object

MAX_WEB_TOKEN: Final = 16 << 10
"""Characters."""
MAX_SUBJECT: Final = 1_024
MAX_SECONDS: Final = 1 << 40
"""Of a time since the epoch: 36,000 years."""
_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


def _registry() -> jws.JWSRegistry:
    registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = MAX_WEB_TOKEN
    return registry


_REGISTRY: Final = _registry()


class _Times(msgspec.Struct, frozen=True):
    """Seconds since the epoch."""

    expires: int
    issued: int
    begins: int | None


def check_web_token(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> Bearer:
    """Whose token it is. `now_ms`: since the epoch. Takes a part of a millisecond of CPU. Raises TokenRefusedError with
    what is wrong, for the log; UnknownKeyError where no key has the token's id."""
    match = None if len(token) > MAX_WEB_TOKEN else _PARTS.fullmatch(token)
    if match is None:
        raise TokenRefusedError("it is no JWT of three parts")
    _check_signature(token, _object_of(match[1], "header"), keys)
    claims = _object_of(match[2], "claims")
    times = _check_times(claims, rules.skew_s, now_ms // 1_000)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefusedError(f"its iss is {claims.get('iss')!r}")
    _check_audience(claims.get("aud"), rules.audiences)
    _check_scope(claims.get(rules.scope_claim))
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenRefusedError(f"its {rules.subject_claim} is no text, or blank")
    if len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise TokenRefusedError(f"its {rules.subject_claim} is longer than {MAX_SUBJECT}, or cannot be printed")
    return Bearer(subject, times.expires * 1_000)


def _check_signature(token: str, header: dict[str, Any], keys: KeySet) -> None:
    key_id, algorithm = header.get("kid"), header.get("alg")
    if algorithm not in ALGORITHMS:
        raise TokenRefusedError(f"its alg is {algorithm!r}")
    if not isinstance(key_id, str):
        raise TokenRefusedError("its header names no key (kid)")
    if "crit" in header or "b64" in header:
        raise TokenRefusedError("its header has extensions that must be understood")
    key = keys.find(key_id, algorithm)
    if key is None:
        if key_id in keys:
            raise TokenRefusedError(f"its alg is {algorithm}, and its key is for others")
        raise UnknownKeyError(key_id)
    try:
        jws.deserialize_compact(token, key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError):
        raise TokenRefusedError("its signature is wrong") from None


def _check_times(claims: dict[str, Any], skew_s: int, now_s: int) -> _Times:
    """Raises TokenRefusedError."""
    expires, issued, begins = (_seconds(claims, name) for name in ("exp", "iat", "nbf"))
    if expires is None or issued is None:
        raise TokenRefusedError(f"it has no {'exp' if expires is None else 'iat'}")
    if now_s - skew_s >= expires:
        raise TokenRefusedError(f"it has expired {now_s - expires} s ago")
    if begins is not None and now_s + skew_s < begins:
        raise TokenRefusedError(f"it is valid in {begins - now_s} s only")
    if expires < issued or (begins is not None and expires < begins):
        raise TokenRefusedError("it ends before it begins")
    return _Times(expires, issued, begins)


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


def _check_scope(scope: object) -> None:
    """Nobody asks for scopes here: a form that Apache Kafka refuses is refused, and that is all."""
    named = scope if isinstance(scope, list) else [scope] if isinstance(scope, str) else []
    if any(not isinstance(each, str) or not each.strip() for each in named) or len(set(map(str, named))) < len(named):
        raise TokenRefusedError("its scope is empty, no text, or names one twice")


def _object_of(part: str, name: str) -> dict[str, Any]:
    try:
        found = parse_object(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        found = None
    if found is None:
        raise TokenRefusedError(f"its {name} are no JSON object whose members differ")
    return found
