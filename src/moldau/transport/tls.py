"""TLS contexts from settings and their files.

The minimum for all settings is TLS 1.2, with suites that have forward secrecy and authenticated encryption. The module
`ssl` reads keys from files only, so keys from elsewhere (PEM in a setting, PKCS#12) go through a file in memory.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from moldau.core.config.tls_settings import PEM, Store, TlsSettings
from moldau.errors import KafkaError, kafka_error
from moldau.extras import MissingExtraError, require_extra
from moldau.wire.x509 import alternative_name_text, alternative_names, not_after_ms, subject_name

_DEFAULT_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL:!PSK"
_TLS13_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_SUITES = {
    f"TLS_{exchange}_{signature}_WITH_{java}": f"{exchange}-{signature}-{openssl}"
    for exchange, signature in (("ECDHE", "ECDSA"), ("ECDHE", "RSA"), ("DHE", "RSA"))
    for java, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""OpenSSL's names by Java's, which Kafka's settings use."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_BEGIN_CERTIFICATE, _END_CERTIFICATE = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Identity(msgspec.Struct, frozen=True):
    """A private key and its certificates, as PEM; `password`: the key's."""

    pem: bytes
    password: str | None

    def __repr__(self) -> str:
        return "Identity(***)"


class TlsMaterial(msgspec.Struct, frozen=True):
    """The stores of one listener. `trusted`: certificates as PEM; None: the system's."""

    identity: Identity | None
    trusted: str | None

    @property
    def expires_ms(self) -> int | None:
        """When our own certificate expires, in ms since the epoch; None without one."""
        certificate = self.certificate
        return None if certificate is None else not_after_ms(certificate)

    @property
    def certificate(self) -> bytes | None:
        """Our own certificate (DER), without its chain."""
        if self.identity is None:
            return None
        text = self.identity.pem.decode("utf-8", "replace")
        begin = text.find(_BEGIN_CERTIFICATE)
        end = text.find(_END_CERTIFICATE, begin)
        if begin < 0 or end < 0:
            return None
        return ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END_CERTIFICATE)])


def check_renewal(settings: TlsSettings, old: TlsMaterial, new: TlsMaterial) -> None:
    """Raises INVALID_CONFIG if a running node would get a certificate with another name (KIP-978): clients that know
    the old name would not connect."""
    before, after = old.certificate, new.certificate
    if before is None or after is None:
        return
    names = subject_name(before), subject_name(after)
    if not settings.allows_dn_changes and names[0] != names[1]:
        raise _invalid(
            f"Keystore DistinguishedName does not match: existing={{DN={names[0]}}}, new={{DN={names[1]}}}; "
            "ssl.allow.dn.changes=true allows it"
        )
    hosts = alternative_names(before), alternative_names(after)
    if not settings.allows_san_changes and not hosts[0] <= hosts[1]:
        existing, found = (", ".join(sorted(map(alternative_name_text, each))) for each in hosts)
        raise _invalid(
            f"Keystore SubjectAltNames do not match: existing={{SAN=[{existing}]}}, new={{SAN=[{found}]}}; "
            "ssl.allow.san.changes=true allows it"
        )


class _Tls:
    """Each new connection uses the current `context`."""

    __slots__ = ("context",)

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def use(self, context: ssl.SSLContext) -> None:
        """Uses the context from the next connection on."""
        self.context = context


class ServerTls(_Tls):
    """The TLS of one listener."""

    __slots__ = ()


class ClientTls(_Tls):
    """The TLS of connections to one kind of listener."""

    __slots__ = ()


def load_material(settings: TlsSettings) -> TlsMaterial:
    """Reads the stores; waits for the disk. Raises INVALID_CONFIG, which names the file and its fault."""
    identity = trusted = None
    if settings.keystore is not None:
        identity = _identity(settings.keystore, settings.key_password)
    if settings.truststore is not None:
        trusted = _trusted(settings.truststore)
    return TlsMaterial(identity, trusted)


def server_context(settings: TlsSettings, material: TlsMaterial) -> ssl.SSLContext:
    """Raises INVALID_CONFIG if the material is unusable."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    if material.identity is None:
        raise _invalid("a listener with TLS needs a key and a certificate: set ssl.keystore.type and .location")
    _take_identity(context, material.identity, _place(settings.keystore))
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.client_auth != "none":
        _trust(context, material, settings, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings, material: TlsMaterial) -> ssl.SSLContext:
    """Raises INVALID_CONFIG if the material is unusable."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.checks_host
    context.verify_mode = ssl.CERT_REQUIRED
    _trust(context, material, settings, ssl.Purpose.SERVER_AUTH)
    if material.identity is not None:
        _take_identity(context, material.identity, _place(settings.keystore))
    return context


def _context(protocol: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    versions = [version for version in _VERSIONS if version in settings.versions]
    suites = settings.cipher_suites
    of_13 = [suite for suite in suites if suite in _TLS13_SUITES]
    if suites and not of_13:
        versions = [version for version in versions if version != "TLSv1.3"]
    elif 0 < len(of_13) < len(_TLS13_SUITES):
        raise _invalid(
            f"ssl.cipher.suites: name all suites of TLS 1.3 or none ({', '.join(_TLS13_SUITES)}): OpenSSL takes them "
            "together here"
        )
    if not versions:
        raise _invalid("ssl.cipher.suites has no suite of the versions in ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    names = openssl_suites(suites)
    context.set_ciphers(":".join(names) if names else _DEFAULT_SUITES)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # in a Java trust store any certificate is an anchor, not only a self-signed one
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def openssl_suites(suites: Iterable[str]) -> list[str]:
    """The TLS 1.2 suites by OpenSSL's names. Raises INVALID_CONFIG for an unsupported suite."""
    return [_suite(suite) for suite in suites if suite not in _TLS13_SUITES]


def _suite(name: str) -> str:
    if name in _SUITES:
        return _SUITES[name]
    if name in _SUITES.values():
        return name
    raise _invalid(
        f"ssl.cipher.suites: {name} is not served, only suites with forward secrecy and authenticated encryption: "
        f"{', '.join((*_TLS13_SUITES, *_SUITES))}"
    )


def _take_identity(context: ssl.SSLContext, identity: Identity, place: str) -> None:
    password = identity.password

    def key_password() -> str:
        # without this OpenSSL would ask on the terminal
        if password is None:
            raise _invalid(f"{place}: the private key is encrypted, and ssl.key.password is not set")
        return password

    for what, mark in (("private key", b"PRIVATE KEY-----"), ("certificate", b"CERTIFICATE-----")):
        if mark not in identity.pem:
            raise _invalid(f"{place}: holds no {what} in PEM")
    try:
        with _file_in_memory(identity.pem) as path:
            context.load_cert_chain(path, password=key_password)
    except (ssl.SSLError, ValueError) as error:
        if getattr(error, "reason", None) or not isinstance(error, ssl.SSLError):
            raise _invalid(f"{place}: {_why(error)}") from error
        wrong = " or ssl.key.password is wrong" if password is not None else ""
        raise _invalid(f"{place}: the private key or a certificate is damaged{wrong}") from error


def _trust(context: ssl.SSLContext, material: TlsMaterial, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    if material.trusted is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=material.trusted)
    except (ssl.SSLError, ValueError) as error:
        raise _invalid(f"{_place(settings.truststore, 'ssl.truststore.certificates')}: {_why(error)}") from error


def _identity(store: Store, key_password: str | None) -> Identity:
    if store.kind == PEM:
        return Identity(_read(store), key_password)
    return Identity(_of_pkcs12(store, has_key=True), None)


def _trusted(store: Store) -> str:
    pem = _read(store) if store.kind == PEM else _of_pkcs12(store, has_key=False)
    text = pem.decode("latin-1")
    if _BEGIN_CERTIFICATE not in text:
        raise _invalid(f"{_place(store, 'ssl.truststore.certificates')} holds no certificate")
    return text


def _of_pkcs12(store: Store, *, has_key: bool) -> bytes:
    """Reads a PKCS#12 store. Also reads type JKS, Kafka's default: Java detects the format, and most such files are
    PKCS#12."""
    data = _read(store)
    if data[:4] == _JKS_MAGIC:
        raise _invalid(
            f"{store.location} is a JKS store, which only Java reads. Convert it: keytool -importkeystore "
            f"-srckeystore {store.location} -destkeystore {str(store.location).removesuffix('.jks')}.p12 "
            "-deststoretype PKCS12"
        )
    if data[:5] == b"-----":
        raise _invalid(
            f"{store.location} is PEM, and its type is {store.kind}: set ssl.keystore.type or "
            "ssl.truststore.type to PEM"
        )
    try:
        require_extra("a PKCS12 store", "tls")
    except MissingExtraError as error:
        raise _invalid(f"{store.location}: {error}; PEM needs nothing") from error
    from moldau.transport import pkcs12

    read = pkcs12.identity_of if has_key else pkcs12.certificates_of
    try:
        return read(data, store.password)
    except ValueError as error:
        raise _invalid(f"{_place(store)}: {error}") from error


def _read(store: Store) -> bytes:
    if store.inline is not None:
        return store.inline.encode()
    try:
        with open(str(store.location), "rb") as file:
            return file.read()
    except OSError as error:
        raise _invalid(f"cannot read {store.location}: {error.strerror}") from error


def _place(store: Store | None, setting: str = "ssl.keystore.key") -> str:
    """Where the store is, for its operator: the file, else the setting."""
    return setting if store is None or store.location is None else store.location


def _why(error: Exception) -> str:
    name = getattr(error, "reason", None) or ""
    known = {
        "KEY_VALUES_MISMATCH": "the private key is not that of the first certificate",
        "EE_KEY_TOO_SMALL": "the key is too short: RSA needs 2048 bits",
        "CA_MD_TOO_WEAK": "a certificate is signed with a weak hash",
        "EE_MD_TOO_WEAK": "a certificate is signed with a weak hash",
    }
    return known.get(name, str(name).replace("_", " ").lower() or str(error) or "cannot be read")


def _invalid(message: str) -> KafkaError:
    return kafka_error("INVALID_CONFIG", message)


@contextmanager
def _file_in_memory(data: bytes) -> Iterator[str]:
    """The path of a file with `data` outside every directory, if the system has such files; else of a file that exists
    for a moment and only its owner can read."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
        return
    number = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(number), "wb") as file:
            file.write(data)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
