"""A small authority for tests: keys of P-256, made once for each process."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

LOCAL = ("localhost", "127.0.0.1")
NOW = datetime.now(UTC)
_USES = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
_USES += ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
_MAY_SIGN = x509.KeyUsage(**{use: use in ("key_cert_sign", "crl_sign") for use in _USES})


class Issued(NamedTuple):
    """A certificate and its key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def chain_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def key_pem_with(self, password: str) -> str:
        encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"us", self.key, self.certificate, None, encryption)

    def write(self, directory: Path, name: str) -> Path:
        """The key and the certificate in one file of PEM."""
        path = directory / f"{name}.pem"
        path.write_text(self.key_pem + self.chain_pem)
        return path


def name_of(text: str) -> x509.Name:
    """`CN=alice,O=Example` in RFC 4514."""
    return x509.Name.from_rfc4514_string(text)


class Authority:
    """Issues certificates that it has signed."""

    def __init__(self, name: str = "CN=Test authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self.own = Issued(key, _signed(name_of(name), key, name_of(name), key, (), 365, is_authority=True))

    @property
    def pem(self) -> str:
        return self.own.chain_pem

    def write(self, directory: Path, name: str = "ca") -> Path:
        path = directory / f"{name}.pem"
        path.write_text(self.pem)
        return path

    def issue(self, subject: str | x509.Name, hosts: tuple[str, ...] = LOCAL, days: float = 90) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        named = subject if isinstance(subject, x509.Name) else name_of(subject)
        return Issued(key, _signed(named, key, self.own.certificate.subject, self.own.key, hosts, days))


@cache
def authority() -> Authority:
    return Authority()


def email_name(address: str) -> x509.Name:
    """A name with an attribute that RFC 2253 has no keyword for."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "m"), x509.NameAttribute(NameOID.EMAIL_ADDRESS, address)])


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    hosts: tuple[str, ...],
    days: float,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    end = NOW + timedelta(days=days)
    begin = min(NOW, end) - timedelta(days=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        # Python 3.13 and later trust no certificate without these (VERIFY_X509_STRICT)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if is_authority:
        builder = builder.add_extension(_MAY_SIGN, critical=True)
    if hosts:
        names = [
            x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
