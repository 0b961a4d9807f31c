"""The other brokers of the cluster, as this one reaches them: at their listener for brokers, as the metadata has it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from moldau.core.metadata.image import BrokerListener, MetadataDelta, MetadataImage
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.network.listener import Network
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.wire.protocol.schema import Request

Response = TypeVar("Response", bound=msgspec.Struct)


class OtherBrokers:
    """The connections to other brokers; used from the broker's loop only."""

    def __init__(self, node: OwnNode, network: Network) -> None:
        self._node = node
        self._network = network
        self._addresses: dict[int, BrokerListener] = {}
        self._epochs: dict[int, int] = {}
        self._peers: dict[int, list[Peer]] = {}
        self._shared: dict[tuple[int, type], Peer] = {}
        """By broker id and kind of request."""

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Takes new addresses from the metadata, before others hear of the change."""
        name = self._node.settings.view.inter_broker_listener
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            listeners = () if broker is None else broker.listeners
            address = next((listener for listener in listeners if listener.name == name), None)
            if broker is None or address is None:
                self._addresses.pop(broker_id, None)
                continue
            self._addresses[broker_id] = address
            is_another_life = broker.epoch != self._epochs.get(broker_id, broker.epoch)
            self._epochs[broker_id] = broker.epoch
            for peer in self._peers.get(broker_id, ()):
                peer.move_to(address)
                if is_another_life:
                    peer.begin_anew()
                elif broker.is_fenced:
                    # a process that stands still ends no connection: who waits for it would wait for a time-out, though
                    # another broker leads by now
                    peer.rest()

    async def ask(self, broker_id: int, request: Request[Response], timeout_ms: int) -> Response:
        """The answer to a request. Raises NoAnswerError.

        Requests of one kind share a connection, on which the broker begins none before the one in front is answered:
        those that wait for others there are to be merged (`merged_requests`).
        """
        shared = broker_id, type(request)
        peer = self._shared.get(shared) or self.new_peer(broker_id)
        if peer is None:
            raise NoAnswerError(f"broker {broker_id} is not known")
        self._shared[shared] = peer
        return await peer.request(request, timeout_ms)

    def new_peer(self, broker_id: int) -> Peer | None:
        """The broker behind a connection of its own; None for one that is not known."""
        address = self._addresses.get(broker_id)
        if address is None:
            return None
        peer = Peer(address, self._network)
        self._peers.setdefault(broker_id, []).append(peer)
        return peer

    def close(self) -> None:
        """Nobody is asked any more."""
        for peers in self._peers.values():
            for peer in peers:
                peer.close()
