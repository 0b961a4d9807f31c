"""A test CA, made once for each process."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from moldau.transport import authority as real

LOCAL = ("localhost", "127.0.0.1")
NOW = datetime.now(UTC)
LIFETIME_DAYS = 40_000


class Issued(real.Issued):
    """A certificate and its key."""

    def write(self, directory: Path, name: str) -> Path:
        """Writes the key and the certificate into one PEM file."""
        path = directory / f"{name}.pem"
        path.write_text(self.key_pem + self.chain_pem)
        return path


def name_of(text: str) -> x509.Name:
    """`CN=alice,O=Example` in RFC 4514."""
    return x509.Name.from_rfc4514_string(text)


class Authority:
    """Issues certificates with its signature."""

    def __init__(self, name: str = "CN=Test authority") -> None:
        self._signer = real.Authority.create(name_of(name), NOW, LIFETIME_DAYS)
        self.own = Issued(*self._signer.own)
        self.pem = self._signer.pem

    def write(self, directory: Path, name: str = "ca") -> Path:
        path = directory / f"{name}.pem"
        path.write_text(self.pem)
        return path

    def issue(self, subject: str | x509.Name, hosts: tuple[str, ...] = LOCAL, days: float = 90) -> Issued:
        named = subject if isinstance(subject, x509.Name) else name_of(subject)
        return Issued(*self._signer.issue(named, hosts, NOW, days))


@cache
def authority() -> Authority:
    return Authority()


def email_name(address: str) -> x509.Name:
    """A name with an attribute for which RFC 2253 has no keyword."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "m"), x509.NameAttribute(NameOID.EMAIL_ADDRESS, address)])
