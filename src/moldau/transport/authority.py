"""A small certificate authority: its key, its certificate and the certificates that it issues. Keys use P-256.

A certificate is for clients and servers, because a node is both. Needs the extra `tls`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
ISSUED_DAYS = 365
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_CLOCK_SKEW = timedelta(days=1)
"""A certificate is valid from this long before its issue, because the clock of another machine may be slow."""
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class Issued(NamedTuple):
    """A certificate with its key. `repr` omits the key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def __repr__(self) -> str:
        return f"Issued({self.certificate.subject.rfc4514_string()}, ***)"

    @property
    def der(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def chain_pem(self) -> str:
        """The certificate without the authority's, which the other side already trusts."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        """The private key, unencrypted, in PKCS#8."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def key_pem_with(self, password: str) -> str:
        """The private key as in `key_pem`, encrypted."""
        encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        """The key and its certificates as PKCS#12, encrypted."""
        encryption = BestAvailableEncryption(password.encode())
        alias = self.certificate.subject.rfc4514_string().encode()
        return pkcs12.serialize_key_and_certificates(alias, self.key, self.certificate, None, encryption)


class Authority:
    """Signs certificates with the key of `own`."""

    def __init__(self, own: Issued) -> None:
        self.own = own

    @classmethod
    def create(cls, subject: x509.Name, now: datetime, days: float = AUTHORITY_DAYS) -> Authority:
        """Makes an authority with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(subject, subject, key.public_key(), key.public_key(), now, days, is_authority=True)
        return cls(Issued(key, builder.sign(key, hashes.SHA256())))

    @classmethod
    def load(cls, key_pem: bytes, certificate_pem: bytes) -> Authority:
        """Raises ValueError if these are not a key and its certificate."""
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = load_pem_private_key(key_pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("the key is not that of the certificate")
        return cls(Issued(key, certificate))

    @property
    def pem(self) -> str:
        """The certificate that clients and nodes trust."""
        return self.own.chain_pem

    def issue(self, subject: x509.Name, hosts: Iterable[str], now: datetime, days: float = ISSUED_DAYS) -> Issued:
        """Issues a certificate, which expires no later than the authority. `hosts`: names and addresses at which others
        reach the holder; empty for a client. Raises ValueError for a host that a certificate cannot name."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer = self.own
        days = min(days, (signer.certificate.not_valid_after_utc - now) / timedelta(days=1))
        builder = _certificate(
            subject, signer.certificate.subject, key.public_key(), signer.key.public_key(), now, days
        ).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        names = [_alternative_name(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Issued(key, builder.sign(signer.key, hashes.SHA256()))


def common_name(text: str) -> x509.Name:
    """`CN=text`. Raises ValueError for a name that no certificate can hold: empty, or longer than 64 characters."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """The names and addresses at which others reach the holder."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    names = [name for name in found if isinstance(name, x509.DNSName | x509.IPAddress)]
    return [str(name.value) for name in names]


def certificates_in(pem: bytes) -> Sequence[x509.Certificate]:
    """The certificates of a file in their order, without other parts. Raises ValueError if the file has no
    certificate."""
    return x509.load_pem_x509_certificates(pem)


def is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether `issuer` signed `certificate`."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    if not host or not host.isascii() or any(character in " /:[]" for character in host):
        raise ValueError(f"{host!r} is neither an address nor the name of a host")
    return x509.DNSName(host)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    now: datetime,
    days: float,
    *,
    is_authority: bool = False,
) -> x509.CertificateBuilder:
    """A certificate valid for `days` from `now`; if `days` is negative, it has already expired."""
    end = now + timedelta(days=days)
    uses = ("key_cert_sign", "crl_sign") if is_authority else ("digital_signature", "key_agreement")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - _CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(x509.KeyUsage(**{use: use in uses for use in _USES}), critical=True)
        # Python 3.13 and later trust no certificate without these (VERIFY_X509_STRICT)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )
