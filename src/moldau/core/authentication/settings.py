"""The SASL settings: the mechanisms of a listener, its PLAIN users, and the login of this node at others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from moldau.core.authentication.bearer_settings import (
    BearerSettings,
    NodeBearer,
    bearer_settings,
    check_handlers,
    node_bearer,
)
from moldau.core.config.listeners import Endpoint
from moldau.core.config.setting import SettingValue, invalid_config
from moldau.wire.protocol.jaas import BEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, LoginModule, parse_jaas_config
from moldau.wire.protocol.sasl_tokens import MECHANISMS, OAUTHBEARER, PLAIN, SCRAM_HASHES, Credentials
from moldau.wire.protocol.security_protocols import has_sasl

_MODULES: Final = {PLAIN: PLAIN_MODULE, **dict.fromkeys(SCRAM_HASHES, SCRAM_MODULE), OAUTHBEARER: BEARER_MODULE}
_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_MAX_REAUTH: Final = "connections.max.reauth.ms"
_USER: Final = "user_"


class NodeSettings(Protocol):
    """The settings of a node that this module reads."""

    @property
    def texts(self) -> dict[str, str]:
        """The settings as they were written."""
        ...

    @property
    def listeners(self) -> tuple[Endpoint, ...]:
        """See BrokerSettings."""
        ...

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """See BrokerSettings."""
        ...

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        """See BrokerSettings."""
        ...

    @property
    def inter_broker_listener(self) -> str:
        """See BrokerSettings."""
        ...

    @property
    def is_alone(self) -> bool:
        """See BrokerSettings."""
        ...

    @property
    def connections_max_reauth_ms(self) -> int:
        """See BrokerSettings."""
        ...

    @property
    def sasl_enabled_mechanisms(self) -> tuple[str, ...]:
        """See BrokerSettings."""
        ...

    @property
    def sasl_mechanism_controller_protocol(self) -> str:
        """See BrokerSettings."""
        ...

    @property
    def sasl_mechanism_inter_broker_protocol(self) -> str:
        """See BrokerSettings."""
        ...

    @property
    def moldau_oauthbearer_allowed_urls(self) -> tuple[str, ...]:
        """See BrokerSettings."""
        ...

    def value_at(self, listener_name: str, mechanism: str, name: str) -> SettingValue:
        """See BrokerSettings."""
        ...

    def protocol_of(self, listener: str) -> str:
        """The security protocol of a listener."""
        ...


class SaslSettings(msgspec.Struct, frozen=True):
    """The SASL settings of one listener. They have passwords and are not shown."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    """The passwords of PLAIN, by user."""
    max_session_ms: Mapping[str, int]
    """By mechanism; 0: no limit."""
    bearer: BearerSettings | None = None
    """None: the listener does not offer OAUTHBEARER."""

    def __repr__(self) -> str:
        return f"SaslSettings({', '.join(self.mechanisms)})"


def check_sasl(settings: NodeSettings) -> None:
    """Raises INVALID_CONFIG if a listener cannot authenticate its clients, or this node cannot log in at others."""
    check_handlers(settings.texts)
    for name in (endpoint.name for endpoint in (*settings.listeners, *settings.controller_endpoints)):
        if has_sasl(settings.protocol_of(name)):
            sasl_settings(name, settings)
    if not settings.is_alone:
        for listener in listeners_of_others(settings):
            login_at(listener, settings)


def listeners_of_others(settings: NodeSettings) -> tuple[str, ...]:
    """The names of the listeners at which this node connects to others: that of brokers, and the first of
    controllers."""
    return tuple(
        dict.fromkeys(
            (settings.inter_broker_listener, *(name.upper() for name in settings.controller_listener_names[:1]))
        )
    )


def sasl_settings(listener: str, settings: NodeSettings) -> SaslSettings:
    """The settings of the listener `name`. Raises INVALID_CONFIG for malformed and unsupported values."""
    prefix = f"listener.name.{listener.lower()}."
    text = settings.texts.get(prefix + _ENABLED)
    names = settings.sasl_enabled_mechanisms if text is None else (each.strip() for each in text.split(","))
    mechanisms = tuple(dict.fromkeys(each for each in names if each))
    for mechanism in mechanisms:
        _check_mechanism(f"listener {listener}: {_ENABLED}", mechanism)
    if not mechanisms:
        raise invalid_config(f"listener {listener}: {_ENABLED} names no mechanism")
    passwords: dict[str, str] = {}
    if PLAIN in mechanisms:
        module = login_module(listener, PLAIN, settings.texts)
        if module is None:
            raise invalid_config(f"listener {listener} offers PLAIN and has no users: set {prefix}plain.{_JAAS}")
        passwords = {key.removeprefix(_USER): value for key, value in module.options.items() if key.startswith(_USER)}
    bearer = None
    if OAUTHBEARER in mechanisms:
        module = login_module(listener, OAUTHBEARER, settings.texts)
        bearer = bearer_settings(listener, settings, {} if module is None else module.options)
    session_ms = {}
    for mechanism in mechanisms:
        own = settings.texts.get(f"{prefix}{mechanism.lower()}.{_MAX_REAUTH}", settings.texts.get(prefix + _MAX_REAUTH))
        session_ms[mechanism] = max(0, settings.connections_max_reauth_ms if own is None else int(own))
    return SaslSettings(mechanisms, passwords, session_ms, bearer)


def login_at(listener: str, settings: NodeSettings) -> Credentials | NodeBearer | None:
    """The login of this node at the listener `name` of other nodes; None without SASL. Raises INVALID_CONFIG."""
    if not has_sasl(settings.protocol_of(listener)):
        return None
    is_of_controllers = listener in [name.upper() for name in settings.controller_listener_names]
    if is_of_controllers:
        setting, mechanism = "sasl.mechanism.controller.protocol", settings.sasl_mechanism_controller_protocol
    else:
        setting, mechanism = "sasl.mechanism.inter.broker.protocol", settings.sasl_mechanism_inter_broker_protocol
    _check_mechanism(setting, mechanism)
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"
    module = login_module(listener, mechanism, settings.texts)
    if mechanism == OAUTHBEARER:
        return node_bearer(listener, settings, module)
    if module is None:
        raise invalid_config(f"{name} must say as whom this node logs in at the listener {listener} of other nodes")
    username, password = module.options.get("username", ""), module.options.get("password", "")
    if not username or not password:
        raise invalid_config(f"{name}: the options username and password must be set")
    try:
        return Credentials(mechanism, username, password)
    except ValueError as error:
        raise invalid_config(f"{name}: {error}") from None


def login_module(listener: str, mechanism: str, texts: Mapping[str, str]) -> LoginModule | None:
    """The value of `listener.name.LISTENER.MECHANISM.sasl.jaas.config`; None if it is not set. As in Kafka, the setting
    without a prefix does not count for a server. Raises INVALID_CONFIG."""
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"
    if name not in texts:
        return None
    module = parse_jaas_config(texts[name])
    if module.name != _MODULES[mechanism]:
        raise invalid_config(f"{name}: the login module of {mechanism} is {_MODULES[mechanism]}")
    return module


def _check_mechanism(setting: str, mechanism: str) -> None:
    if mechanism not in MECHANISMS:
        why = " (Kerberos is not served)" if mechanism == "GSSAPI" else ""
        raise invalid_config(f"{setting}: {mechanism} is not served{why}; choose from {', '.join(MECHANISMS)}")
