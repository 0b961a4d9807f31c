"""Connections to the other brokers of the cluster, at the broker listeners that the metadata names."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from moldau.core.metadata.image import BrokerListener, MetadataDelta, MetadataImage
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.peers.outages import Outages
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.transport.network import Network
from moldau.wire.protocol.schema import Request

FOUND_ITSELF_S = 60.0
MAX_NAMED = 8
"""The most brokers that one log line names."""

Response = TypeVar("Response", bound=msgspec.Struct)


class OtherBrokers:
    """The connections to other brokers; used from the broker's loop only."""

    def __init__(self, node: OwnNode, network: Network) -> None:
        self._node = node
        self._network = network
        self._outages = Outages(node.log)
        self._tell_again_s = 0.0
        self._addresses: dict[int, BrokerListener] = {}
        self._epochs: dict[int, int] = {}
        self._peers: dict[int, list[Peer]] = {}
        self._shared: dict[tuple[int, type], Peer] = {}
        """By broker id and kind of request."""

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Takes new addresses from the metadata, before other parts handle the change."""
        name = self._node.settings.view.inter_broker_listener
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            listeners = () if broker is None else broker.listeners
            address = next((listener for listener in listeners if listener.name == name), None)
            if broker is None or address is None:
                self._addresses.pop(broker_id, None)
                if broker is not None and not broker.is_fenced and broker_id != self._node.node_id:
                    self._warn_unreachable(broker_id, name)
                continue
            self._addresses[broker_id] = address
            is_another_life = broker.epoch != self._epochs.get(broker_id, broker.epoch)
            self._epochs[broker_id] = broker.epoch
            for peer in self._peers.get(broker_id, ()):
                peer.move_to(address)
                if is_another_life:
                    peer.begin_anew()
                elif broker.is_fenced:
                    # a hanging process closes no connection: requests would wait for a time-out, though another broker
                    # leads by now
                    peer.rest()

    def _warn_unreachable(self, broker_id: int, listener_name: str) -> None:
        """Logs once that the partitions of this broker cannot be copied. Otherwise each replica would log it
        repeatedly."""
        self._node.log.warn(
            "no listener for brokers",
            f"broker {broker_id} is not reached: it has registered no listener {listener_name}, at which this broker "
            "asks others (inter.broker.listener.name)",
            about=f"broker {broker_id}",
        )

    async def ask(self, broker_id: int, request: Request[Response], timeout_ms: int) -> Response:
        """The answer to a request. Raises NoAnswerError.

        Requests of one kind share a connection, and the broker handles them one after the other. Merge requests that
        wait for other brokers there (`merged_requests`).
        """
        shared = broker_id, type(request)
        peer = self._shared.get(shared) or self.new_peer(broker_id)
        if peer is None:
            raise NoAnswerError(f"broker {broker_id} is not known")
        self._shared[shared] = peer
        return await peer.request(request, timeout_ms)

    def new_peer(self, broker_id: int, *, is_prompt: bool = False) -> Peer | None:
        """A new connection to the broker; None if the broker is not known. `is_prompt`: see Peer."""
        address = self._addresses.get(broker_id)
        if address is None:
            return None
        peer = Peer(address, self._network, outage=self._outages.of(f"broker {broker_id}"), is_prompt=is_prompt)
        self._peers.setdefault(broker_id, []).append(peer)
        return peer

    def found_itself(self) -> None:
        """A fetch of a follower here has arrived here: the leader's address leads to this broker. Logs that, and again
        after FOUND_ITSELF_S, as nothing is copied meanwhile."""
        now_s = self._node.loop.time()
        if now_s < self._tell_again_s:
            return
        self._tell_again_s = now_s + FOUND_ITSELF_S
        own_id = self._node.node_id
        own = self._addresses.get(own_id)
        asked = {one: address for one, address in self._addresses.items() if one != own_id and one in self._peers}
        at_own = {one: address for one, address in asked.items() if own is not None and address == own}
        places = ", ".join(
            f"broker {one} is registered at {address.host}:{address.port}"
            for one, address in sorted((at_own or asked).items())[:MAX_NAMED]
        )
        self._node.log.finding(
            logging.ERROR,
            "fetch from itself",
            f"broker {own_id} fetches from itself and copies nothing: {places}, which leads to broker {own_id}. "
            "Set advertised.listeners of each broker to an address at which the others reach it",
        )

    def close(self) -> None:
        """Closes all connections."""
        for peers in self._peers.values():
            for peer in peers:
                peer.close()
        self._outages.close()
