"""The security of a client's connections, under the names of Kafka's settings.

    security.protocol                      PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
    ssl.truststore.*, ssl.keystore.*, ...  CLIENT_TLS_SETTINGS; read and checked by `moldau.transport.security`
    sasl.mechanism, sasl.jaas.config       PLAIN and SCRAM, SCRAM also by a delegation token (`tokenauth="true"`)
    sasl.oauthbearer.*                     BEARER_SETTINGS: tokens of an issuer, for OAUTHBEARER

Three names of librdkafka also work: `ssl.ca.location`, and `sasl.username` with `sasl.password`. Unknown names are
ignored, as in Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from moldau.client.protocol.bearer import BEARER_SETTINGS, BearerLogin, SuppliedLogin, bearer_login
from moldau.client.protocol.secrets import SECRET_SETTINGS, AccessError, Origin, Secret, secret_of
from moldau.errors import KafkaError
from moldau.wire.protocol.jaas import (
    BEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    LoginModule,
    encode_jaas_config,
    parse_jaas_config,
)
from moldau.wire.protocol.oauth_settings import OAUTH_CLIENT_ID, OAUTH_CLIENT_SECRET
from moldau.wire.protocol.sasl_tokens import MECHANISMS, OAUTHBEARER, PASSWORD_MECHANISMS, PLAIN, TOKEN_EXTENSION
from moldau.wire.protocol.security_protocols import PLAINTEXT, SECURITY_PROTOCOLS, has_sasl, has_tls

SECURITY_PROTOCOL, SASL_MECHANISM, SASL_JAAS_CONFIG = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
SASL_USERNAME, SASL_PASSWORD, SSL_CA_LOCATION = "sasl.username", "sasl.password", "ssl.ca.location"
CLIENT_TLS_SETTINGS: Final = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
SECURITY_SETTINGS: Final = (
    SECURITY_PROTOCOL,
    *CLIENT_TLS_SETTINGS,
    SSL_CA_LOCATION,
    SASL_MECHANISM,
    SASL_JAAS_CONFIG,
    SASL_USERNAME,
    SASL_PASSWORD,
    *BEARER_SETTINGS,
)
"""All security settings that have an effect."""
_TRUSTSTORE: Final = "ssl.truststore."


class ClientLogin(msgspec.Struct, frozen=True):
    """The SASL login of a client. Raises AccessError for an unsupported mechanism.

    `is_token`: the name is the id of a delegation token, and the password its HMAC in base64 (KIP-48).
    """

    mechanism: str
    username: str
    password: Secret
    is_token: bool = False

    def __post_init__(self) -> None:
        if self.mechanism not in PASSWORD_MECHANISMS:
            why = " (Kerberos is not served)" if self.mechanism == "GSSAPI" else ""
            raise AccessError(
                SASL_MECHANISM, f"must be one of {', '.join(PASSWORD_MECHANISMS)}, not {self.mechanism}{why}"
            )
        if not self.username:
            raise AccessError(SASL_USERNAME, "must be set")
        if self.is_token and self.mechanism == PLAIN:
            raise AccessError(SASL_MECHANISM, "must be one of SCRAM: a delegation token does not log in by PLAIN")

    def properties(self) -> dict[str, str]:
        """The settings of this login, with a reference to the secret. Raises AccessError for a secret in memory."""
        found, reference = {SASL_MECHANISM: self.mechanism}, self.password.reference()
        if not self.is_token:
            return {**found, SASL_USERNAME: self.username, SASL_PASSWORD: reference}
        # the names of librdkafka cannot express a token
        options = {"username": self.username, "password": reference, TOKEN_EXTENSION: "true"}
        return {**found, SASL_JAAS_CONFIG: encode_jaas_config(LoginModule(SCRAM_MODULE, options))}


AnyLogin = ClientLogin | BearerLogin | SuppliedLogin


class ClientSecurity(msgspec.Struct, frozen=True):
    """`tls`: the given settings of CLIENT_TLS_SETTINGS, as texts. `tls_secrets`: those that are secrets.

    Without a trust store, trusts the system's certificate authorities. Checks the host name unless
    `ssl.endpoint.identification.algorithm` is empty.
    """

    protocol: str = PLAINTEXT
    tls: tuple[tuple[str, str], ...] = ()
    tls_secrets: tuple[tuple[str, Secret], ...] = ()
    login: AnyLogin | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], origin: Origin | None = None) -> ClientSecurity:
        """Ignores settings that the protocol does not use. `origin`: see Origin. Raises AccessError."""
        protocol = properties.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise AccessError(SECURITY_PROTOCOL, f"must be one of {', '.join(SECURITY_PROTOCOLS)}, not {protocol}")
        texts: dict[str, str] = {}
        secrets: dict[str, Secret] = {}
        if has_tls(protocol):
            given = _with_ca_location(properties)
            for name in CLIENT_TLS_SETTINGS:
                text = given.get(name)
                if text is None:
                    continue
                if name in SECRET_SETTINGS:
                    secrets[name] = secret_of(name, text, origin)
                else:
                    texts[name] = text.strip()
        login = _login(properties, origin) if has_sasl(protocol) else None
        return cls(protocol, tuple(texts.items()), tuple(secrets.items()), login)

    def __repr__(self) -> str:
        if self.login is None:
            return f"ClientSecurity({self.protocol})"
        if not isinstance(self.login, ClientLogin):
            return f"ClientSecurity({self.protocol}, {self.login.mechanism}, {self.login.who}, ***)"
        login = f"{self.login.mechanism}, {self.login.username!r}, ***{', token' if self.login.is_token else ''}"
        return f"ClientSecurity({self.protocol}, {login})"

    def with_bearer(self, supply: Callable[[], str], who: str) -> ClientSecurity:
        """The same security with a login by the token that `supply` returns for each login (see SuppliedLogin). Raises
        AccessError if the connections have no SASL."""
        if not has_sasl(self.protocol):
            raise AccessError(SECURITY_PROTOCOL, f"must be SASL_SSL or SASL_PLAINTEXT for a token, not {self.protocol}")
        return replace(self, login=SuppliedLogin(supply, who))

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return has_tls(self.protocol)

    def properties(self) -> dict[str, str]:
        """The settings for `from_properties`, with references to secrets. Raises AccessError for a secret in memory."""
        if self == PLAIN_TEXT:
            return {}
        found = {SECURITY_PROTOCOL: self.protocol, **dict(self.tls)}
        found |= {name: secret.reference() for name, secret in self.tls_secrets}
        if self.login is not None:
            found |= self.login.properties()
        return found


PLAIN_TEXT: Final = ClientSecurity()


def password_of_entry(entry: str, text: str) -> str:
    """The secret in the entry of a file: the option `password` or `clientSecret` of `sasl.jaas.config`, or else the
    text. Raises INVALID_CONFIG."""
    if not entry.endswith(SASL_JAAS_CONFIG):
        return text
    options = parse_jaas_config(text).options
    return options.get("password") or options.get("clientSecret", "")


def _with_ca_location(properties: Mapping[str, str]) -> Mapping[str, str]:
    location = properties.get(SSL_CA_LOCATION)
    if location is None:
        return properties
    other = next((name for name in CLIENT_TLS_SETTINGS if name.startswith(_TRUSTSTORE) and name in properties), None)
    if other is not None:
        raise AccessError(SSL_CA_LOCATION, f"and {other} cannot both be set")
    return {**properties, f"{_TRUSTSTORE}type": "PEM", f"{_TRUSTSTORE}location": location}


def _login(properties: Mapping[str, str], origin: Origin | None) -> AnyLogin:
    mechanism = properties.get(SASL_MECHANISM, "").strip().upper()
    if not mechanism:
        raise AccessError(SASL_MECHANISM, f"must be set: one of {', '.join(MECHANISMS)}")
    jaas = properties.get(SASL_JAAS_CONFIG)
    if mechanism == OAUTHBEARER:
        return bearer_login(properties, None if jaas is None else _module(mechanism, jaas), origin)
    if jaas is None:
        password = properties.get(SASL_PASSWORD, "")
        login = ClientLogin(mechanism, properties.get(SASL_USERNAME, ""), secret_of(SASL_PASSWORD, password, origin))
        if not password:
            raise AccessError(SASL_PASSWORD, f"must be set, or {SASL_JAAS_CONFIG}")
        return login
    if SASL_USERNAME in properties or SASL_PASSWORD in properties:
        raise AccessError(SASL_JAAS_CONFIG, f"and {SASL_USERNAME} cannot both be set")
    return _login_of_jaas(mechanism, jaas, origin)


def _login_of_jaas(mechanism: str, jaas: str, origin: Origin | None) -> ClientLogin:
    module = _module(mechanism, jaas)
    username, password = module.options.get("username", ""), module.options.get("password", "")
    if mechanism in PASSWORD_MECHANISMS and not (username and password):
        raise AccessError(SASL_JAAS_CONFIG, "must have the options username and password")
    # as Java's Boolean.parseBoolean
    is_token = module.name == SCRAM_MODULE and module.options.get(TOKEN_EXTENSION, "").lower() == "true"
    return ClientLogin(mechanism, username, secret_of(SASL_JAAS_CONFIG, password, origin), is_token)


def _module(mechanism: str, jaas: str) -> LoginModule:
    if jaas.lstrip().startswith("${"):
        raise AccessError(SASL_JAAS_CONFIG, f"cannot be a reference, only the password in it. {_other_way(mechanism)}")
    try:
        module = parse_jaas_config(jaas)
    except KafkaError as error:
        raise AccessError(SASL_JAAS_CONFIG, f"is malformed: {error}") from error
    expected = {PLAIN: PLAIN_MODULE, OAUTHBEARER: BEARER_MODULE}.get(mechanism, SCRAM_MODULE)
    if mechanism in MECHANISMS and module.name != expected:
        raise AccessError(SASL_JAAS_CONFIG, f"must have the login module of {mechanism}, {expected}")
    return module


def _other_way(mechanism: str) -> str:
    if mechanism == OAUTHBEARER:
        return f"Or set {OAUTH_CLIENT_ID}, and {OAUTH_CLIENT_SECRET} to this reference"
    return f"Or set {SASL_USERNAME}, and {SASL_PASSWORD} to this reference"
