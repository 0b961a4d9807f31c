"""JSON Web Tokens for tests (RFC 7519): correctly signed, and forged. Written by hand, so any damage is possible."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

Kind = Literal["RSA", "EC"]
Claims = Mapping[str, Any]
Forgery = Literal[
    "alg_none",
    "hs256_with_public_key",
    "expired",
    "not_yet_valid",
    "wrong_audience",
    "wrong_issuer",
    "unknown_kid",
    "other_key",
    "changed_claims",
    "no_expiry",
]
_COORDINATE_BYTES: Final = 32
_RSA_BITS: Final = 2_048
_LONG_AGO_S: Final = 86_400


class SigningKey:
    """A private key with its id: RS256 for RSA, ES256 for EC."""

    def __init__(self, kind: Kind = "EC", kid: str = "") -> None:
        self.kid = kid or secrets.token_hex(8)
        self.algorithm = "RS256" if kind == "RSA" else "ES256"
        self._key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
        if kind == "RSA":
            self._key = rsa.generate_private_key(public_exponent=65_537, key_size=_RSA_BITS)
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())

    @property
    def private_pem(self) -> str:
        """Not encrypted, in PKCS#8."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def public_pem(self) -> bytes:
        """A forger signs HS256 with it."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def public_jwk(self) -> dict[str, str]:
        """Its form in a JWKS (RFC 7517)."""
        common = {"kid": self.kid, "use": "sig", "alg": self.algorithm}
        public = self._key.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            rsa_numbers = public.public_numbers()
            return {"kty": "RSA", "n": _number(rsa_numbers.n), "e": _number(rsa_numbers.e), **common}
        numbers = public.public_numbers()
        x, y = (_text64(each.to_bytes(_COORDINATE_BYTES, "big")) for each in (numbers.x, numbers.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y, **common}

    def sign(self, data: bytes) -> bytes:
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")

    def verify(self, data: bytes, signature: bytes) -> bool:
        public = self._key.public_key()
        try:
            if isinstance(public, rsa.RSAPublicKey):
                public.verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
            else:
                r, s = signature[:_COORDINATE_BYTES], signature[_COORDINATE_BYTES:]
                der = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
                public.verify(der, data, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def signed(key: SigningKey, claims: Claims, header: Claims | None = None) -> str:
    """The token; `header` adds to the usual header."""
    head = {"typ": "JWT", "alg": key.algorithm, "kid": key.kid, **(header or {})}
    data = f"{_json64(head)}.{_json64(claims)}"
    return f"{data}.{_text64(key.sign(data.encode()))}"


def forged(key: SigningKey, claims: Claims, forgery: Forgery) -> str:
    """Tokens that no server may accept, made from acceptable ones."""
    if forgery == "alg_none":
        return f"{_json64({'alg': 'none', 'typ': 'JWT'})}.{_json64(claims)}."
    if forgery == "hs256_with_public_key":
        data = f"{_json64({'alg': 'HS256', 'typ': 'JWT', 'kid': key.kid})}.{_json64(claims)}"
        return f"{data}.{_text64(hmac.digest(key.public_pem, data.encode(), hashlib.sha256))}"
    if forgery == "unknown_kid":
        return signed(key, claims, {"kid": "never-published"})
    if forgery == "other_key":
        return signed(SigningKey("RSA" if key.algorithm == "RS256" else "EC", key.kid), claims)
    if forgery == "changed_claims":
        header, _, signature = signed(key, claims).split(".")
        return f"{header}.{_json64({**claims, 'sub': 'admin'})}.{signature}"
    if forgery == "no_expiry":
        return signed(key, {name: value for name, value in claims.items() if name != "exp"})
    now = claims["iat"]
    wrong: dict[str, dict[str, Any]] = {
        "expired": {"iat": now - 2 * _LONG_AGO_S, "nbf": now - 2 * _LONG_AGO_S, "exp": now - _LONG_AGO_S},
        "not_yet_valid": {"nbf": now + _LONG_AGO_S, "exp": now + 2 * _LONG_AGO_S},
        "wrong_audience": {"aud": "another-audience"},
        "wrong_issuer": {"iss": "https://elsewhere.example.org"},
    }
    return signed(key, {**claims, **wrong[forgery]})


def claims_of(token: str) -> dict[str, Any]:
    """Without a check of the signature."""
    found: dict[str, Any] = json.loads(_bytes64(token.split(".")[1]))
    return found


def is_signed_by(key: SigningKey, token: str) -> bool:
    """By this key, and with the algorithm in the header."""
    data, _, signature = token.rpartition(".")
    try:
        header = json.loads(_bytes64(data.partition(".")[0]))
        return header["alg"] == key.algorithm and key.verify(data.encode(), _bytes64(signature))
    except (ValueError, KeyError, TypeError):
        return False


def _json64(value: Claims) -> str:
    return _text64(json.dumps(value, separators=(",", ":")).encode())


def _number(value: int) -> str:
    return _text64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _text64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
