"""Applies the ACLs of the metadata to requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.core.authentication.settings import listeners_of_others, login_at
from moldau.core.authorization.settings import SUPER_USERS, allows_without_acls, parse_super_users
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.network.session import ANONYMOUS
from moldau.wire.protocol.sasl_tokens import Credentials
from moldau.wire.protocol.security_protocols import has_sasl

if TYPE_CHECKING:
    from moldau.core.authorization.authorizer import StandardAuthorizer
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.shell.quorum.role import QuorumRole


def new_authorizer(settings: BrokerSettings, quorum: QuorumRole, log: EventLog) -> StandardAuthorizer | None:
    """The one authorizer of a node, for all its listeners; None: the settings ask for none. It follows the committed
    metadata: a changed ACL is in force before this node answers the request that changed it."""
    if not settings.has_authorizer:
        return None
    from moldau.core.authorization.authorizer import StandardAuthorizer

    super_users = parse_super_users(settings.texts.get(SUPER_USERS, ""))
    authorizer = StandardAuthorizer(super_users, allow_without_acls=allows_without_acls(settings.texts))

    def metadata_changed(image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.acls or not authorizer.is_loaded:
            authorizer.change(delta.acls)

    quorum.subscribe(metadata_changed)
    _warn_of_nodes(settings, log)
    return authorizer


def _warn_of_nodes(settings: BrokerSettings, log: EventLog) -> None:
    missing = unnamed_nodes(settings)
    if missing:
        come_as = ", ".join(
            f"{escape(principal)} on the listener {listener}" for listener, principal in missing.items()
        )
        log.warn(
            "authorizer",
            f"{SUPER_USERS} does not name the nodes of this cluster: they come as {come_as}. A node knows no ACL "
            "before it has found the quorum, so nodes that start together find none. "
            f"Add to {SUPER_USERS}: {escape(super_users_to_add(missing))}",
        )


def unnamed_nodes(settings: BrokerSettings) -> dict[str, str]:
    """The `principals_of_nodes` that are missing in `super.users`, if ACLs are in force."""
    if not settings.has_authorizer:
        return {}
    named = parse_super_users(settings.texts.get(SUPER_USERS, ""))
    return {name: principal for name, principal in principals_of_nodes(settings).items() if principal not in named}


def super_users_to_add(missing: Mapping[str, str]) -> str:
    """The result of `unnamed_nodes`, in the format of `super.users`."""
    return ";".join(dict.fromkeys(missing.values()))


def principals_of_nodes(settings: BrokerSettings) -> dict[str, str]:
    """The principals of other nodes that log in here with settings like this node's, by listener name. A certificate
    may have any name, so listeners with client certificates are left out."""
    found: dict[str, str] = {}
    if settings.is_whole:
        return found
    own = [endpoint.name for endpoint in (*settings.listeners, *settings.controller_endpoints)]
    for listener in (name for name in listeners_of_others(settings) if name in own):
        tls = settings.tls_of(listener)
        if has_sasl(settings.protocol_of(listener)):
            login = None if settings.is_alone else login_at(listener, settings)  # a single node need not log in
            if isinstance(login, Credentials):  # the issuer chooses the name in a token
                found[listener] = f"User:{login.username}"
        elif tls is None or tls.client_auth == "none":
            found[listener] = ANONYMOUS
    return found
