"""The `ssl.*` settings of one listener: `listener.name.NAME.ssl.*` before `ssl.*` (KIP-103).

Only values. `moldau.transport.tls` reads the files and makes contexts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from moldau.core.config.principal_rules import PrincipalRules, parse_principal_rules
from moldau.core.config.setting import SettingValue, invalid_config, invalid_value

TLS_SETTINGS = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.principal.mapping.rules",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The settings that have an effect. Each may also have the prefix `listener.name.NAME.`, the name in lower case."""
PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
STORE_TYPES = (PEM, PKCS12, JKS)
VERSIONS = ("TLSv1.2", "TLSv1.3")
_UNSAFE = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1", "SSL", "SSLv2")
_PREFIXED = re.compile(r"listener\.name\.[^.]+\.(ssl\..+)")


class Store(msgspec.Struct, frozen=True):
    """A source of keys or certificates. `inline`: PEM text, the key first."""

    kind: str
    location: str | None
    password: str | None = None
    inline: str | None = None

    def __repr__(self) -> str:
        return f"Store(kind={self.kind!r}, location={self.location!r}, ***)"


class TlsSettings(msgspec.Struct, frozen=True):
    """The TLS settings of one listener. `keystore`: its key and certificates. `truststore`: trusted issuers of the
    other side; None: those of the system."""

    keystore: Store | None
    key_password: str | None
    truststore: Store | None
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    client_auth: str
    """none, requested or required."""
    checks_host: bool
    """Whether a client of this listener compares the host to which it connects with the certificate."""
    principal_rules: PrincipalRules
    allows_dn_changes: bool = False
    """Whether the certificate may get another subject at run time; below: whether it may lose a host name (KIP-978)."""
    allows_san_changes: bool = False

    def __repr__(self) -> str:
        return f"TlsSettings(keystore={self.keystore!r}, truststore={self.truststore!r}, key_password=***)"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the contexts are made from. Read them again when they change."""
        stores = (self.keystore, self.truststore)
        return tuple(store.location for store in stores if store is not None and store.location is not None)


def tls_setting_of(name: str) -> str | None:
    """The setting after a listener prefix: `listener.name.x.ssl.key.password` gives `ssl.key.password`. Else None."""
    match = _PREFIXED.fullmatch(name) if name.startswith("listener.name.") else None
    return match.group(1) if match is not None and match.group(1) in TLS_SETTINGS else None


def tls_settings(
    listener_name: str, texts: Mapping[str, str], value_of: Callable[[str, str | None], SettingValue]
) -> TlsSettings:
    """The settings of the listener. `value_of` returns the typed value of a setting, or its default for None, and
    raises error 40. Raises error 40, in Kafka's words, for impossible combinations."""
    prefix = f"listener.name.{listener_name.lower()}."

    def value(name: str) -> SettingValue:
        return value_of(name, texts.get(prefix + name, texts.get(name)))

    def text(name: str) -> str | None:
        found = value(name)
        return None if found is None or found == "" else str(found)

    def items(name: str) -> tuple[str, ...]:
        found = value(name)
        return found if isinstance(found, tuple) else ()

    client_auth = text("ssl.client.auth") or "none"
    algorithm = text("ssl.endpoint.identification.algorithm")
    if algorithm is not None and algorithm.lower() != "https":
        raise invalid_value("ssl.endpoint.identification.algorithm", algorithm, "must be https, or empty")
    protocol = text("ssl.protocol")
    if protocol is not None and protocol not in ("TLS", *VERSIONS):
        raise invalid_value("ssl.protocol", protocol, f"must be one of {', '.join(VERSIONS)}: others are not safe")
    return TlsSettings(
        keystore=_keystore(text),
        key_password=text("ssl.key.password"),
        truststore=_truststore(text),
        versions=_versions(items("ssl.enabled.protocols")),
        cipher_suites=items("ssl.cipher.suites"),
        client_auth=client_auth,
        checks_host=algorithm is not None,
        principal_rules=parse_principal_rules(str(value("ssl.principal.mapping.rules"))),
        allows_dn_changes=bool(value("ssl.allow.dn.changes")),
        allows_san_changes=bool(value("ssl.allow.san.changes")),
    )


def _versions(items: tuple[str, ...]) -> tuple[str, ...]:
    for item in items:
        if item in _UNSAFE or item not in VERSIONS:
            raise invalid_value("ssl.enabled.protocols", item, f"must be of {', '.join(VERSIONS)}: others are not safe")
    return items or VERSIONS


def _type_of(name: str, kind: str | None) -> str:
    upper = (kind or JKS).upper()
    if upper not in STORE_TYPES:
        raise invalid_value(name, kind, f"must be one of {', '.join(STORE_TYPES)}")
    return upper


def _keystore(text: Callable[[str], str | None]) -> Store | None:
    kind = _type_of("ssl.keystore.type", text("ssl.keystore.type"))
    location, password = text("ssl.keystore.location"), text("ssl.keystore.password")
    key, chain = text("ssl.keystore.key"), text("ssl.keystore.certificate.chain")
    if key is not None:
        if kind != PEM:
            raise invalid_config(f"SSL private key can be specified only for PEM, but key store type is {kind}.")
        if chain is None:
            raise invalid_config("SSL private key is specified, but certificate chain is not specified.")
        if location is not None:
            raise invalid_config("Both SSL key store location and separate private key are specified.")
    elif chain is not None:
        raise invalid_config("SSL certificate chain is specified, but private key is not specified")
    if kind == PEM and password is not None:
        raise invalid_config(
            "SSL key store password cannot be specified with PEM format, only key password may be specified."
        )
    if key is not None:
        return Store(kind, None, inline=f"{_lines(key)}\n{_lines(str(chain))}\n")
    if location is None:
        if password is not None:
            raise invalid_config("SSL key store is not specified, but key store password is specified.")
        return None
    if kind != PEM and password is None:
        raise invalid_config("SSL key store is specified, but key store password is not specified.")
    return Store(kind, location, password)


def _truststore(text: Callable[[str], str | None]) -> Store | None:
    kind = _type_of("ssl.truststore.type", text("ssl.truststore.type"))
    location, password = text("ssl.truststore.location"), text("ssl.truststore.password")
    certificates = text("ssl.truststore.certificates")
    if certificates is not None:
        if kind != PEM:
            raise invalid_config(
                f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}."
            )
        if location is not None:
            raise invalid_config("Both SSL trust store location and separate trust certificates are specified.")
    if kind == PEM and password is not None:
        raise invalid_config("SSL trust store password cannot be specified for PEM format.")
    if certificates is not None:
        return Store(kind, None, inline=_lines(certificates))
    if location is None:
        if password is not None:
            raise invalid_config("SSL trust store is not specified, but trust store password is specified.")
        return None
    return Store(kind, location, password)


def _lines(pem: str) -> str:
    """Splits PEM that a .properties file has in one line: OpenSSL accepts at most 64 characters of Base64 in a line."""
    return re.sub(
        r"(-----BEGIN [^-]+-----)(.*?)(-----END [^-]+-----)",
        lambda found: "\n".join((found.group(1), *_body(found.group(2)), found.group(3))) + "\n",
        pem,
        flags=re.DOTALL,
    )


def _body(text: str) -> list[str]:
    if ":" in text:  # headers of an encrypted key need lines of their own
        return [line.strip() for line in text.strip().splitlines()]
    packed = "".join(text.split())
    return [packed[start : start + 64] for start in range(0, len(packed), 64)]
