"""Joins the ACLs of the metadata to the requests that they concern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.authorization.settings import SUPER_USERS, allows_without_acls, parse_super_users
from moldau.core.config.listeners import PLAINTEXT
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.shell.network.session import ANONYMOUS

if TYPE_CHECKING:
    from moldau.core.authorization.authorizer import StandardAuthorizer
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.shell.network.event_log import EventLog
    from moldau.shell.quorum.role import QuorumRole


def new_authorizer(settings: BrokerSettings, quorum: QuorumRole, log: EventLog) -> StandardAuthorizer | None:
    """The one authorizer of a node, for all its listeners; None: the settings ask for none. It follows the committed
    metadata: an ACL that changes is in force before the request that changed it is answered here."""
    if not settings.has_authorizer:
        return None
    from moldau.core.authorization.authorizer import StandardAuthorizer

    super_users = parse_super_users(settings.texts.get(SUPER_USERS, ""))
    authorizer = StandardAuthorizer(super_users, allow_without_acls=allows_without_acls(settings.texts))

    def metadata_changed(image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.acls or not authorizer.is_loaded:
            authorizer.change(delta.acls)

    quorum.subscribe(metadata_changed)
    if _has_anonymous_nodes(settings) and ANONYMOUS not in super_users:
        log.warn(
            "authorizer",
            f"nodes that reach this one on a PLAINTEXT listener are {ANONYMOUS}, which is not in {SUPER_USERS}: "
            "without ACLs that allow it ClusterAction on the cluster, from their hosts, no quorum is found and no "
            "broker serves",
        )
    return authorizer


def _has_anonymous_nodes(settings: BrokerSettings) -> bool:
    """Whether others of the cluster reach this node without saying who they are."""
    names = (settings.inter_broker_listener, *(name.upper() for name in settings.controller_listener_names))
    return not settings.is_whole and any(settings.protocol_of(name) == PLAINTEXT for name in names)
