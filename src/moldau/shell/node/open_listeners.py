"""Warns at the start of listeners that are open to everybody who reaches them over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.authentication.settings import sasl_settings
from moldau.wire.protocol.sasl_tokens import OAUTHBEARER, PLAIN
from moldau.wire.protocol.security_protocols import PLAINTEXT, SASL_PLAINTEXT, is_loopback

if TYPE_CHECKING:
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.shell.network.event_log import EventLog


def warn_of_open_listeners(settings: BrokerSettings, log: EventLog) -> None:
    """Logs one line for each kind. A listener on a loopback address is open to this machine only, so it is left out."""
    reachable = [each.name for each in settings.listeners if not is_loopback(each.host)]
    if not settings.has_authorizer:
        open_to_all = [name for name in reachable if settings.protocol_of(name) == PLAINTEXT]
        if open_to_all:
            log.warn(
                "open listeners",
                f"whoever reaches {_listed(open_to_all)} may read, write and change everything: without TLS or SASL, "
                "and without authorizer.class.name. Bind it to a loopback address, or see docs/operate/acls.md",
            )
    bare = [name for name in reachable if _takes_in_plain_text(PLAIN, settings, name)]
    if bare:
        log.warn(
            "passwords in plain text",
            f"passwords cross the network in plain text to {_listed(bare)}: PLAIN over SASL_PLAINTEXT. Use SASL_SSL, "
            "or SCRAM alone",
        )
    bearer = [name for name in reachable if _takes_in_plain_text(OAUTHBEARER, settings, name)]
    if bearer:
        log.warn(
            "tokens in plain text",
            f"tokens cross the network in plain text to {_listed(bearer)}, and whoever reads one may use it: "
            "OAUTHBEARER over SASL_PLAINTEXT. Use SASL_SSL",
        )
    http = settings.moldau_http_listener
    if http and not is_loopback(http.rpartition(":")[0]):
        missing = [name for name, is_set in _http_settings(settings) if not is_set]
        if missing:
            log.warn(
                "open metrics",
                f"whoever reaches moldau.http.listener={http} may read the metrics, which name topics and groups: set "
                f"{' and '.join(missing)}, or bind it to a loopback address (docs/operate/watching.md)",
            )


def _http_settings(settings: BrokerSettings) -> tuple[tuple[str, bool], ...]:
    return (
        ("moldau.http.users.file", bool(settings.moldau_http_users_file)),
        ("moldau.http.tls", settings.moldau_http_tls),
    )


def _takes_in_plain_text(mechanism: str, settings: BrokerSettings, name: str) -> bool:
    is_bare = settings.protocol_of(name) == SASL_PLAINTEXT
    return is_bare and mechanism in sasl_settings(name, settings).mechanisms


def _listed(names: list[str]) -> str:
    return f"listener{'s' if len(names) > 1 else ''} {', '.join(names)}"
