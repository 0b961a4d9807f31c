"""Authenticates the clients of a node: which mechanisms its SASL listeners offer, and where they find the users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.authentication.attempts import FailedAttempts
from moldau.core.authentication.mechanisms import ListenerMechanisms
from moldau.core.authentication.settings import sasl_settings
from moldau.core.authentication.token_logins import TokenLogins
from moldau.core.authentication.users import ScramDirectory
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.metadata.login_records import LoginRecords, is_of_user
from moldau.shell.network.authenticating import ListenerAuthentication, close_without_credentials
from moldau.shell.network.connection_group import ConnectionGroup
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.reply import Authenticator
from moldau.shell.node.issuer_keys import IssuerKeys, Spawn
from moldau.shell.node.ports import NodePorts
from moldau.telemetry import Telemetry
from moldau.wire.protocol.security_protocols import has_sasl

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole

SECRET_BYTES = 32


class NodeAuthentication:
    """One per node. Costs nothing if no listener asks for authentication."""

    def __init__(self, settings: BrokerSettings, ports: NodePorts, log: EventLog, telemetry: Telemetry) -> None:
        self._settings = settings
        self._ports = ports
        self._log = log
        self._telemetry = telemetry
        self._listeners: dict[str, ListenerMechanisms] = {}
        self._groups: list[ConnectionGroup] = []
        self._quorum: QuorumRole | None = None
        self._shared: tuple[bytes, ScramDirectory, FailedAttempts] | None = None
        """Shared by all listeners: the node's secret, the users, the failed attempts."""
        self._keys: IssuerKeys | None = None

    async def load_keys(self, spawn: Spawn) -> None:
        """Must run before `of_listener`: reads the keys that verify tokens, and refreshes them in the background.
        Raises INVALID_CONFIG if they cannot be read."""
        settings = self._settings
        names = [endpoint.name for endpoint in (*settings.listeners, *settings.controller_endpoints)]
        secured = [sasl_settings(name, settings) for name in names if has_sasl(settings.protocol_of(name))]
        if secured:
            self._keys = IssuerKeys(self._ports.clock, self._ports.workers, self._log, self._telemetry, spawn)
            await self._keys.load(each.bearer for each in secured if each.bearer is not None)

    def of_listener(self, name: str, group: ConnectionGroup) -> Authenticator | None:
        """The authenticator for new connections of the listener; None: it needs no authentication."""
        if not has_sasl(self._settings.protocol_of(name)):
            return None
        if self._shared is None:
            secret = self._ports.random.random_bytes(SECRET_BYTES)
            attempts = FailedAttempts(self._settings.connection_failed_authentication_delay_ms)
            self._shared = secret, ScramDirectory(secret, self._users_at_first), attempts
        secret, directory, attempts = self._shared
        of_listener, key = sasl_settings(name, self._settings), self._settings.delegation_token_secret_key
        tokens = None if key is None else TokenLogins(key, directory, self._ports.clock.now_ms)
        exchange = None if self._keys is None else self._keys.new_exchange
        mechanisms = ListenerMechanisms(of_listener, directory, self._ports.random, secret, tokens, exchange)
        self._listeners[name] = mechanisms
        if group not in self._groups:
            self._groups.append(group)
        listener = ListenerAuthentication(mechanisms, attempts, self._ports.clock, self._log, self._telemetry)
        return listener.authenticator(group)

    def follow(self, quorum: QuorumRole) -> None:
        """From here on, SCRAM users come from the metadata."""
        if self._shared is not None:
            self._quorum = quorum
            quorum.subscribe(self._metadata_changed)

    def settings_changed(self, settings: BrokerSettings) -> None:
        """Applies users and mechanisms of the settings in force. A removed user is disconnected at once."""
        self._settings = settings
        in_force = {name: sasl_settings(name, settings) for name in self._listeners}
        for name, mechanisms in self._listeners.items():
            mechanisms.settings_changed(in_force[name])
        if self._keys is not None:
            self._keys.keep_only(each.bearer for each in in_force.values() if each.bearer is not None)
        self._let_go()

    def _metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if self._shared is None or not (delta.logins or self._shared[1].is_at_first):
            return
        of_users = self._shared[1].is_at_first or any(map(is_of_user, delta.logins))
        self._shared[1].changed(image.logins, of_users=of_users)
        if None in delta.logins.values():
            self._let_go()

    def _users_at_first(self) -> LoginRecords:
        return LoginRecords() if self._quorum is None else self._quorum.users_at_first()

    def _let_go(self) -> None:
        """Ends the connections of removed users."""
        for group in self._groups:
            ended = close_without_credentials(list(group.connections.values()), self._listeners.get)
            if ended:
                self._log.info("users without credentials", f"closed {ended} connections of users that are no more")
