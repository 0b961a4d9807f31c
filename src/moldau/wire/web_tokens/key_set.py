"""The public keys of an issuer (JWKS, RFC 7517), and the algorithms that each may verify.

A key fixes its algorithms by its type, its curve and its `alg` (RFC 8725, 3.1): a token never chooses among others.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from moldau.errors import MoldauError

MAX_KEY_SET_BYTES: Final = 1 << 20
MAX_KEYS: Final = 100
MAX_KEY_ID: Final = 256
"""In characters."""
RSA_BITS: Final = (2_048, 8_192)
"""The smallest and largest key size in use: larger keys take milliseconds for each token."""
_MAX_EXPONENT_BITS: Final = 32
_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS: Final = (*_OF_RSA, *_OF_CURVES.values())
_PRIVATE: Final = ("d", "p", "q", "dp", "dq", "qi", "oth", "k")

VerificationKey = RSAKey | ECKey


class KeySetError(MoldauError):
    """The document is no set of keys, or has none that can be used."""


class KeySet:
    """The usable keys. `passed_over`: one sentence for each unusable key, with texts of the issuer."""

    def __init__(self, keys: Mapping[tuple[str, str], VerificationKey], passed_over: Sequence[str]) -> None:
        """`keys`: by id and algorithm."""
        self._keys = dict(keys)
        self._ids = dict.fromkeys(key_id for key_id, _ in self._keys)
        self.passed_over = tuple(passed_over)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, key_id: str) -> bool:
        return key_id in self._ids

    @property
    def only_id(self) -> str | None:
        """The id of the only key; None if several exist."""
        return next(iter(self._ids)) if len(self._ids) == 1 else None

    def find(self, key_id: str, algorithm: str) -> VerificationKey | None:
        """The key of this id, if it may verify that algorithm."""
        return self._keys.get((key_id, algorithm))


def parse_key_set(data: bytes) -> KeySet:
    """The keys of a JWKS document. A key that is private, symmetric, too short, without an id or not for signatures is
    passed over, and the others are used. Raises KeySetError."""
    if len(data) > MAX_KEY_SET_BYTES:
        raise KeySetError(f"the document has more than {MAX_KEY_SET_BYTES} bytes")
    document = parse_object(data)
    listed = None if document is None else document.get("keys")
    if not isinstance(listed, list):
        raise KeySetError('the document is no JSON object with a list "keys"')
    if len(listed) > MAX_KEYS:
        raise KeySetError(f"the document has {len(listed)} keys, and {MAX_KEYS} are read")
    keys: dict[tuple[str, str], VerificationKey] = {}
    passed_over = []
    for number, value in enumerate(listed, 1):
        try:
            key_id, algorithms, key = _parse_key(value)
        except KeySetError as error:
            passed_over.append(f"key {number}: {error}")
            continue
        for algorithm in algorithms:
            keys.setdefault((key_id, algorithm), key)
    if not keys:
        raise KeySetError("; ".join(("the document has no key that can be used", *passed_over[:3])))
    return KeySet(keys, passed_over)


def parse_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in `data`: UTF-8, no repeated member, no NaN. None for other data."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse_key(value: object) -> tuple[str, tuple[str, ...], VerificationKey]:
    if not isinstance(value, dict):
        raise KeySetError("it is no object")
    kind, key_id = value.get("kty"), value.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID:
        raise KeySetError(f"its kid is no text of 1 to {MAX_KEY_ID} characters")
    if any(name in value for name in _PRIVATE):
        raise KeySetError(f"{key_id} is a secret or private key, and every reader of it can sign")
    uses = value.get("key_ops", ["verify"])
    if value.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        raise KeySetError(f"{key_id} is not for signatures")
    possible = _OF_RSA if kind == "RSA" else tuple(filter(None, [_OF_CURVES.get(str(value.get("crv")))]))
    if kind not in ("RSA", "EC") or not possible:
        raise KeySetError(f"{key_id} is neither an RSA key nor on the curve {', '.join(_OF_CURVES)}")
    named = value.get("alg")
    if named is not None and named not in possible:
        raise KeySetError(f"{key_id}: its alg is not one of {', '.join(possible)}")
    names = ("kty", "n", "e") if kind == "RSA" else ("kty", "crv", "x", "y")
    parts = {name: value.get(name) for name in names}
    return key_id, possible if named is None else (named,), _import(key_id, kind, parts)


def _import(key_id: str, kind: str, parts: dict[str, Any]) -> VerificationKey:
    try:
        if kind == "EC":
            return ECKey.import_key(parts)
        bits, exponent_bits = (_bits(parts[name]) for name in ("n", "e"))
        if RSA_BITS[0] <= bits <= RSA_BITS[1] and exponent_bits <= _MAX_EXPONENT_BITS:
            return RSAKey.import_key(parts)
    except (JoseError, ValueError, TypeError, AttributeError):
        raise KeySetError(f"{key_id} is malformed") from None
    raise KeySetError(f"{key_id} has {bits} bits; keys of {RSA_BITS[0]} to {RSA_BITS[1]} are used")


def _bits(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big").bit_length()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member comes twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
