"""How this node logs in at other nodes whose listeners require it (SASL)."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.protocol.bearer import bearer_login
from moldau.client.protocol.sasl import Login as ClientLogin
from moldau.client.protocol.secrets import AccessError
from moldau.core.authentication.bearer_settings import NodeBearer
from moldau.core.authentication.settings import listeners_of_others, login_at
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.setting import invalid_config
from moldau.ports import Random, Workers
from moldau.transport.network import Login, Network, NetworkInFront


class NetworkWithLogins(NetworkInFront):
    """The network of a node that logs in at others. See Network."""

    def __init__(
        self, network: Network, credentials: Mapping[str, ClientLogin], random: Random, workers: Workers
    ) -> None:
        """`credentials`: by the name of the listener."""
        super().__init__(network)
        self._logins = {name: Login(each, random, workers) for name, each in credentials.items()}

    def login_at(self, listener_name: str) -> Login | None:
        """See Network."""
        return self._logins.get(listener_name)


def with_logins(network: Network, settings: BrokerSettings, random: Random, workers: Workers) -> Network:
    """The network for connections to other nodes: `network` itself if no listener asks for a login. Raises
    INVALID_CONFIG."""
    names = listeners_of_others(settings)
    found = {
        name: login for name in names if not settings.is_alone and (login := _login_at(name, settings)) is not None
    }
    if not found:
        return network
    return NetworkWithLogins(network, found, random, workers)


def _login_at(name: str, settings: BrokerSettings) -> ClientLogin | None:
    login = login_at(name, settings)
    if not isinstance(login, NodeBearer):
        return login
    from moldau.transport.oauth import TokenSource  # h11 and ssl take milliseconds to import

    try:
        return TokenSource(bearer_login(login.properties, login.module, None))
    except AccessError as error:
        raise invalid_config(f"listener {name}: {error}") from None
