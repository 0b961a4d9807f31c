"""As whom this node logs in at other nodes, whose listeners may ask for it (SASL)."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.authentication.settings import listeners_of_others, login_at
from moldau.core.config.broker_settings import BrokerSettings
from moldau.ports import Random, Workers
from moldau.transport.network import Login, Network, NetworkInFront
from moldau.wire.protocol.sasl_tokens import Credentials


class NetworkWithLogins(NetworkInFront):
    """See Network: that of a node which logs in at others."""

    def __init__(
        self, network: Network, credentials: Mapping[str, Credentials], random: Random, workers: Workers
    ) -> None:
        """`credentials`: by the name of the listener."""
        super().__init__(network)
        self._logins = {name: Login(each, random, workers) for name, each in credentials.items()}

    def login_at(self, listener_name: str) -> Login | None:
        """See Network."""
        return self._logins.get(listener_name)


def with_logins(network: Network, settings: BrokerSettings, random: Random, workers: Workers) -> Network:
    """The network by which this node reaches others: `network` itself where no listener asks for a login."""
    names = listeners_of_others(settings)
    found = {name: login for name in names if not settings.is_alone and (login := login_at(name, settings)) is not None}
    if not found:
        return network
    return NetworkWithLogins(network, found, random, workers)
