"""The OAUTHBEARER settings of a listener: accepted tokens and the source of the keys (KIP-768).

Unlike Apache Kafka, a listener without `sasl.server.callback.handler.class` accepts signed tokens only. Kafka's default
accepts tokens without a signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from moldau.core.config.setting import SettingValue, invalid_config
from moldau.wire.protocol.jaas import LoginModule
from moldau.wire.protocol.oauth_settings import (
    ASSERTION_KEY_FILE,
    OAUTH_ASSERTION_FILE,
    OAUTH_CLASSES,
    OAUTH_CLIENT_ID,
    OAUTH_CLIENT_SECRET,
    OAUTH_SETTINGS,
    TOKEN_ENDPOINT,
)
from moldau.wire.protocol.sasl_tokens import OAUTHBEARER
from moldau.wire.protocol.security_protocols import is_loopback
from moldau.wire.web_tokens.rules import ClaimRules

HANDLER: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
VALIDATOR_HANDLER: Final = f"{OAUTH_CLASSES}OAuthBearerValidatorCallbackHandler"
_HANDLERS: Final = {HANDLER: VALIDATOR_HANDLER, LOGIN_HANDLER: f"{OAUTH_CLASSES}OAuthBearerLoginCallbackHandler"}
_VALIDATORS: Final = (f"{OAUTH_CLASSES}DefaultJwtValidator", f"{OAUTH_CLASSES}BrokerJwtValidator")
_VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_AUDIENCE, _ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
_ANY_AUDIENCE, _ANY_ISSUER = "sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"
_CLIENT: Final = (OAUTH_CLIENT_ID, OAUTH_CLIENT_SECRET)
_SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
_CLAIMS: Final = ("sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name")
_TIMES: Final = (
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
)
ALLOWED_URLS: Final = "moldau.oauthbearer.allowed.urls"


class SettingsAtListeners(Protocol):
    """The settings of a node that this module reads."""

    @property
    def texts(self) -> dict[str, str]:
        """The settings as they were written."""
        ...

    @property
    def moldau_oauthbearer_allowed_urls(self) -> tuple[str, ...]:
        """See SecuritySettings."""
        ...

    def value_at(self, listener_name: str, mechanism: str, name: str) -> SettingValue:
        """See SecuritySettings."""
        ...


class TokenRules(ClaimRules, frozen=True):
    """The claims that a token must have."""

    scope_claim: str
    subject_claim: str
    """The claim with the name of the user."""


class KeySource(msgspec.Struct, frozen=True):
    """The URL of an issuer's keys, and how often they are fetched. Listeners with the same source share it."""

    url: str
    """`file:`, or `https:`; `http:` on the loopback only."""
    refresh_ms: int
    backoff_ms: int
    max_backoff_ms: int
    tls: tuple[tuple[str, str], ...] = ()
    """TLS settings (`ssl.truststore.location`) from the options of the login module. May contain secrets."""

    def __repr__(self) -> str:
        return f"KeySource({self.url})"


class NodeBearer(msgspec.Struct, frozen=True):
    """The source of the tokens with which a node logs in at other nodes. It has secrets and is not shown."""

    properties: Mapping[str, str]
    """By the name of the client setting, because `client.protocol.bearer` reads the settings of both."""
    module: LoginModule | None

    def __repr__(self) -> str:
        return f"NodeBearer({self.properties.get(TOKEN_ENDPOINT)})"


class BearerSettings(msgspec.Struct, frozen=True):
    """The OAUTHBEARER settings of one listener."""

    rules: TokenRules
    keys: KeySource


def check_handlers(texts: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIG for an unknown callback handler. Ignoring the handler of a server could admit clients that
    it rejects."""
    for name, text in texts.items():
        for base, served in _HANDLERS.items():
            if (name == base or name.endswith(f".{base}")) and text.strip():
                is_of_bearer = name.startswith("listener.name.") and name.endswith(f".{OAUTHBEARER.lower()}.{base}")
                if text.strip() != served or not is_of_bearer:
                    raise invalid_config(
                        f"{name}: {text.strip()} is not served; only "
                        f"listener.name.LISTENER.{OAUTHBEARER.lower()}.{base}"
                        f"={served} is, and tokens without a signature are never accepted"
                    )


def bearer_settings(listener: str, settings: SettingsAtListeners, options: Mapping[str, str]) -> BearerSettings:
    """The settings of the listener `name`, which offers OAUTHBEARER. `options`: those of its login module. Raises
    INVALID_CONFIG if it could verify no token, in Kafka's words where Kafka has the same error."""

    def value(name: str) -> SettingValue:
        return settings.value_at(listener, OAUTHBEARER, name)

    if value(_VALIDATOR) not in _VALIDATORS:
        raise invalid_config(f"{_VALIDATOR} must be {' or '.join(_VALIDATORS)}: no other is known")
    url = value(_URL)
    if not url:
        raise invalid_config(
            f'listener {listener}: OAUTHBEARER requires "{_URL}" to be set, so that signatures can be verified'
        )
    audiences, issuer = value(_AUDIENCE), value(_ISSUER)
    _require(listener, "aud", _AUDIENCE, audiences, waiver=_ANY_AUDIENCE, is_waived=value(_ANY_AUDIENCE))
    _require(listener, "iss", _ISSUER, issuer, waiver=_ANY_ISSUER, is_waived=value(_ANY_ISSUER))
    refresh_ms, backoff_ms, max_backoff_ms = (_at_least(1, name, value(name)) for name in _TIMES)
    skew_s = _at_least(0, _SKEW, value(_SKEW))
    scope_claim, subject_claim = (_claim_name(name, value(name)) for name in _CLAIMS)
    tls = tuple(each for each in options.items() if each[0].startswith("ssl."))
    check_fetched_url(_URL, str(url), settings.moldau_oauthbearer_allowed_urls)
    return BearerSettings(
        TokenRules(
            audiences if isinstance(audiences, tuple) else (), _text(issuer), skew_s, scope_claim, subject_claim
        ),
        KeySource(str(url), refresh_ms, backoff_ms, max_backoff_ms, tls),
    )


def node_bearer(listener: str, settings: SettingsAtListeners, module: LoginModule | None) -> NodeBearer:
    """The source of tokens for logins at other nodes. `module`: the login module. Raises INVALID_CONFIG if it could get
    no token."""
    names = [name for name in OAUTH_SETTINGS if _is_set(listener, name, settings.texts)]
    values = {name: settings.value_at(listener, OAUTHBEARER, name) for name in names}
    properties = {name: str(value) for name, value in values.items() if value is not None and value != ""}
    url, options = properties.get(TOKEN_ENDPOINT), {} if module is None else module.options
    if url is None:
        raise invalid_config(f"{TOKEN_ENDPOINT} must say where this node has tokens from for the listener {listener}")
    check_fetched_url(TOKEN_ENDPOINT, url, settings.moldau_oauthbearer_allowed_urls)
    if not url.startswith("file:") and OAUTH_ASSERTION_FILE not in properties and ASSERTION_KEY_FILE not in properties:
        for name, option in zip(_CLIENT, ("clientId", "clientSecret"), strict=True):
            if name not in properties and not options.get(option):
                raise invalid_config(f"{name} must be set for the listener {listener}, or {OAUTH_ASSERTION_FILE}")
    return NodeBearer(properties, module)


def _is_set(listener: str, name: str, texts: Mapping[str, str]) -> bool:
    prefix = f"listener.name.{listener.lower()}."
    return not texts.keys().isdisjoint((f"{prefix}{OAUTHBEARER.lower()}.{name}", f"{prefix}{name}", name))


def check_fetched_url(name: str, url: str, allowed: tuple[str, ...]) -> None:
    """Raises INVALID_CONFIG for a URL from which a node may not fetch keys or tokens. `name`: of the setting.
    `allowed`: the URLs that may be fetched over the network (CVE-2025-27817). A `file:` URL needs no entry."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise invalid_config(f"{name} contains a URL that is malformed") from None
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise invalid_config(f"{name}: a file is named by its whole path, as in file:/etc/moldau/jwks.json")
        return
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise invalid_config(f"{name} must be a file:, https: or http: URL")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise invalid_config(f"{name} may have no user, no password and no fragment")
    if parts.scheme == "http" and not is_loopback(host):
        raise invalid_config(f"{name}: http: is for the loopback only, since anyone between could change what is read")
    if url not in allowed:
        raise invalid_config(
            f"{name}: {url} cannot be accessed due to restrictions; to allow it, add it to {ALLOWED_URLS}"
        )


def _require(
    listener: str, claim: str, name: str, value: SettingValue, *, waiver: str, is_waived: SettingValue
) -> None:
    if not value and is_waived is not True:
        raise invalid_config(
            f'listener {listener}: OAUTHBEARER requires "{name}" to be configured so that the token\'s "{claim}" claim '
            f'can be verified. Set "{name}", or "{waiver}" to true to accept any'
        )


def _at_least(least: int, name: str, value: SettingValue) -> int:
    if not isinstance(value, int) or value < least:
        raise invalid_config(f"The OAuth configuration option {name} value must be at least {least}")
    return value


def _claim_name(name: str, value: SettingValue) -> str:
    if not isinstance(value, str) or not value.strip():
        raise invalid_config(f"The OAuth configuration option {name} value is required")
    return value.strip()


def _text(value: SettingValue) -> str | None:
    return value if isinstance(value, str) and value else None
