"""Assertions that authenticate a client at an issuer (RFC 7523, KIP-1258), signed by its private key."""

from __future__ import annotations

import secrets

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from moldau.client.protocol.bearer import AssertionKey
from moldau.errors import kafka_error
from moldau.transport.secrets import read_secret, read_text
from moldau.wire.protocol.oauth_settings import ASSERTION_KEY_FILE, ASSERTION_PASSPHRASE

ID_BYTES = 16


def signed_assertion(key: AssertionKey, now_ms: int) -> str:
    """Makes a new assertion. `now_ms`: since the epoch. Reads the key from the disk each time, so a replaced key is
    used at once. Raises INVALID_CONFIG, whose text has no part of the key."""
    pem = read_text(key.file, ASSERTION_KEY_FILE).encode()
    passphrase = None if key.passphrase is None else read_secret(key.passphrase, ASSERTION_PASSPHRASE).encode()
    kind = RSAKey if key.algorithm.startswith("RS") else ECKey
    header = {"alg": key.algorithm, "typ": "JWT"}
    try:
        private = load_pem_private_key(pem, passphrase)
        opened = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        claims = key.claims(now_ms, secrets.token_hex(ID_BYTES))
        return jwt.encode(header, claims, kind.import_key(opened), algorithms=[key.algorithm])
    except (JoseError, UnsupportedAlgorithm, TypeError, ValueError):
        told = f"{ASSERTION_KEY_FILE}: {key.file} is no private key in PEM for {key.algorithm}"
        # the libraries' errors may quote the file
        raise kafka_error("INVALID_CONFIG", f"{told}, or {ASSERTION_PASSPHRASE} does not open it") from None
