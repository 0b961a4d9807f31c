"""The folder of a small certificate authority.

    authority.pem        its certificate: clients and nodes trust it
    authority.key.pem    its key (mode 0600), which can issue certificates in its name
    NAME.pem             an issued key with its certificate (mode 0600)
    NAME.p12             the same as PKCS#12, encrypted (mode 0600)

Files are replaced only if the caller asks for it. Needs the extra `tls`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from moldau.errors import MoldauError
from moldau.transport.authority import (
    AUTHORITY_DAYS,
    ISSUED_DAYS,
    Authority,
    certificates_in,
    common_name,
    hosts_of,
    is_signed_by,
)

CERTIFICATE = "authority.pem"
KEY = "authority.key.pem"
RENEW_DAYS = 30
"""A node's certificate is renewed this many days before it expires."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_SECRET, _PUBLIC = 0o600, 0o644


class AuthorityError(MoldauError):
    """The folder cannot be used as requested; the message is one sentence with the remedy."""


class AuthorityFolder:
    """The folder of an existing authority. `create` makes a new one."""

    def __init__(self, path: Path) -> None:
        """Reads the folder. Raises AuthorityError."""
        self.path = path
        self.certificate_path = path / CERTIFICATE
        self.key_path = path / KEY
        if not has_authority(path):
            raise AuthorityError(f"{path} holds no {CERTIFICATE}: `moldau certs init` makes an authority")
        key = self.key_path
        try:
            if stat.S_IMODE(key.stat().st_mode) & 0o077:
                raise AuthorityError(f"{key} can be read by others than its owner: chmod 600 {key}")
            self._authority = Authority.load(key.read_bytes(), self.certificate_path.read_bytes())
        except OSError as error:
            raise _told(error) from error
        except (ValueError, TypeError) as error:  # TypeError: the key is encrypted
            raise AuthorityError(f"{key} and {CERTIFICATE} are not an authority: {error}") from error

    @classmethod
    def create(cls, path: Path, name: str, now: datetime, days: float = AUTHORITY_DAYS) -> AuthorityFolder:
        """Makes the folder if it is absent. Raises AuthorityError if it already has an authority or an authority's
        key."""
        for file in (path / CERTIFICATE, path / KEY):
            if file.exists():
                raise AuthorityError(f"{file} exists: an authority is kept, so choose another folder")
        try:
            made = Authority.create(common_name(name), now, days)
        except ValueError as error:
            raise AuthorityError(f"{name!r} cannot be the name of an authority: {error}") from error
        try:
            path.mkdir(parents=True, exist_ok=True)
            _write_new(path / KEY, made.own.key_pem.encode(), _SECRET)
            _write_new(path / CERTIFICATE, made.pem.encode(), _PUBLIC)
        except OSError as error:
            raise _told(error) from error
        return cls(path)

    def issue(
        self,
        name: str,
        hosts: Iterable[str],
        now: datetime,
        days: float = ISSUED_DAYS,
        *,
        pkcs12_password: str | None = None,
        replace: bool = False,
    ) -> list[Path]:
        """Issues a certificate for `CN=name` and returns its files: NAME.pem and, with `pkcs12_password`, NAME.p12.

        Raises AuthorityError for an invalid name or host, and if a file exists and `replace` is False.
        """
        if f"{name}.pem" in (CERTIFICATE, KEY):
            raise AuthorityError(f"{name!r} cannot be the name of a certificate: {name}.pem is a file of the authority")
        if _NAME.fullmatch(name) is None:
            raise AuthorityError(
                f"{name!r} cannot be the name of a certificate: use up to 64 letters, digits, dots, dashes and "
                "underscores"
            )
        try:
            issued = self._authority.issue(common_name(name), hosts, now, days)
        except ValueError as error:
            raise AuthorityError(str(error)) from error
        files = {self.path / f"{name}.pem": (issued.key_pem + issued.chain_pem).encode()}
        if pkcs12_password is not None:
            files[self.path / f"{name}.p12"] = issued.pkcs12(pkcs12_password)
        for path in files:
            if path.exists() and not replace:
                raise AuthorityError(f"{path} exists: --replace issues it again")
        for path, data in files.items():
            try:
                (_write_over if replace else _write_new)(path, data, _SECRET)
            except OSError as error:
                raise _told(error) from error
        return list(files)

    def of_node(self, name: str, hosts: Iterable[str], now: datetime) -> tuple[Path, str]:
        """The certificate file of a node reached at `hosts`, and the reason why it was issued; "" if the existing one
        was kept. Raises AuthorityError."""
        wanted, path = list(hosts), self.path / f"{name}.pem"
        reason = self._why_not(path, wanted, now)
        if reason:
            self.issue(name, wanted, now, replace=True)
        return path, reason

    def _why_not(self, path: Path, hosts: list[str], now: datetime) -> str:
        """Why a node cannot use the file; "" if it can."""
        try:
            certificate = certificates_in(path.read_bytes())[0]
        except FileNotFoundError:
            return "there was none"
        except (OSError, ValueError):
            return f"{path.name} could not be read"
        if not is_signed_by(certificate, self._authority.own.certificate):
            return f"{path.name} was of another authority"
        if certificate.not_valid_after_utc - now < timedelta(days=RENEW_DAYS):
            return f"{path.name} ended on {certificate.not_valid_after_utc:%Y-%m-%d}"
        known = hosts_of(certificate)
        lacking = [host for host in hosts if host not in known]
        return f"{path.name} did not name {lacking[0]}" if lacking else ""


def has_authority(path: Path) -> bool:
    """Whether the folder has an authority's certificate."""
    return (path / CERTIFICATE).is_file()


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Writes a new file. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # regardless of the umask
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _write_over(path: Path, data: bytes, mode: int) -> None:
    """Replaces the file atomically."""
    new = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()  # left by an attempt that was killed
    _write_new(new, data, mode)
    new.replace(path)


def _told(error: OSError) -> AuthorityError:
    return AuthorityError(f"{error.filename}: {error.strerror}")
