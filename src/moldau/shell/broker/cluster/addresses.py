"""The addresses of brokers, as a client reaches them."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.listeners import is_wildcard
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.shell.network.context import RequestContext
from moldau.types import BrokerId

MAX_PLACES = 64
"""The most pairs of listener and own address for which the brokers' addresses are cached. Clients use one or two."""


class BrokerAddresses:
    """The registered addresses of the brokers on the listener of a client's request."""

    def __init__(self, node_id: BrokerId, settings: BrokerSettings) -> None:
        self._node_id = node_id
        self._image = MetadataImage()
        self._serving: dict[tuple[str, tuple[str, int]], dict[int, tuple[str, int]]] = {}
        """Results of `serving`, by listener and this broker's own address there."""
        points = settings.registered_listeners if settings.is_alone else ()
        self._alone_everywhere = tuple(point.name for point in points if is_wildcard(point.host))
        """The listeners on every interface without an advertised address; empty if the settings name another node."""

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follows the registrations of brokers; `image` holds `delta` already."""
        self._image = image
        if delta.brokers:
            self._serving.clear()

    def own(self, context: RequestContext) -> tuple[str, int]:
        """The address of this broker for the client: the registered one, which the other brokers name too. A node that
        is alone, with a listener on every interface, gives its end of the client's connection."""
        listener = context.session.listener_name
        registered = self._registered_at(self._node_id, listener)
        if registered is None or (len(self._image.brokers) == 1 and listener in self._alone_everywhere):
            return context.local_address or ("localhost", 0)
        return registered

    def of(self, broker_id: int, context: RequestContext) -> tuple[str, int] | None:
        """The address of a broker for the client, on the listener of the client's request. None: it has none there."""
        if broker_id == self._node_id:
            return self.own(context)
        return self._registered_at(broker_id, context.session.listener_name)

    def _registered_at(self, broker_id: int, listener_name: str) -> tuple[str, int] | None:
        registered = self._image.brokers.get(broker_id)
        if registered is None:
            return None
        return next(((point.host, point.port) for point in registered.listeners if point.name == listener_name), None)

    def serving(self, context: RequestContext) -> Mapping[int, tuple[str, int]]:
        """The addresses of the unfenced brokers that the client reaches, in order of the id. Always includes this
        broker, as it answers."""
        place = context.session.listener_name, self.own(context)
        found = self._serving.get(place)
        if found is None:
            if len(self._serving) >= MAX_PLACES:
                self._serving.clear()
            serving = {*(one.broker_id for one in self._image.brokers.values() if not one.is_fenced), self._node_id}
            addresses = ((broker_id, self.of(broker_id, context)) for broker_id in sorted(serving))
            found = {broker_id: address for broker_id, address in addresses if address is not None}
            self._serving[place] = found
        return found
