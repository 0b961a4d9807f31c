"""Converts PKCS#12 stores to PEM, with the package `cryptography` (the extra `tls`)."""

from __future__ import annotations

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12


def identity_of(data: bytes, password: str | None) -> bytes:
    """The private key, its certificate and the chain. Raises ValueError with a sentence."""
    key, certificate, others = pkcs12.load_key_and_certificates(data, _bytes(password))
    if key is None or certificate is None:
        raise ValueError("holds no private key with a certificate")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + b"".join(each.public_bytes(Encoding.PEM) for each in (certificate, *others))


def certificates_of(data: bytes, password: str | None) -> bytes:
    """All certificates of a trust store. Raises ValueError with a sentence."""
    _, certificate, others = pkcs12.load_key_and_certificates(data, _bytes(password))
    every = others if certificate is None else [certificate, *others]
    return b"".join(each.public_bytes(Encoding.PEM) for each in every)


def _bytes(password: str | None) -> bytes | None:
    return None if password is None else password.encode()
