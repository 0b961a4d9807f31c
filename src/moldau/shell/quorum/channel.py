"""Sends this node's requests to the other nodes of the quorum, over one connection for each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from moldau.core.config.listeners import Endpoint
from moldau.core.metadata.image import BrokerListener
from moldau.core.raft.messages import AddVoter, Fetch, RemoveVoter, Request, Standing, UpdateVoter
from moldau.core.raft.protocol import (
    QuorumResponse,
    Sender,
    decode_answer,
    encode_request,
    error_name,
    leader_addresses,
)
from moldau.core.raft.voter_protocol import encode_change
from moldau.core.raft.voters import ReplicaKey, VoterSet
from moldau.errors import ProtocolError
from moldau.shell.network.event_log import EventLog
from moldau.shell.peers.outages import Outages
from moldau.shell.peers.peer import NoAnswerError, NobodyListensError, Peer
from moldau.transport.network import Network
from moldau.types import BrokerId

_FIRST_BOOTSTRAP_ID = -2
_OF_ANOTHER_CLUSTER = "INCONSISTENT_CLUSTER_ID"


class QuorumChannel:
    """The channel of one node. Addresses come from the current voters; for other nodes, from the leader address in
    answers. `bootstrap` servers have ids from -2 down, as in Kafka."""

    def __init__(
        self,
        sender: Sender,
        network: Network,
        *,
        request_timeout_ms: int,
        on_lost: Callable[[int], None],
        on_refused: Callable[[int], None],
        on_stranger: Callable[[], None],
        log: EventLog,
        bootstrap: Sequence[Endpoint] = (),
    ) -> None:
        """`on_lost` is called with the id of a node that closed its connection; `on_refused` with the id of a node that
        refused the connection; `on_stranger` when `strangers` has grown."""
        self._sender = sender
        self._network = network
        self._request_timeout_ms = request_timeout_ms
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._on_stranger = on_stranger
        own = {(each.host, each.port) for each in sender.listeners}
        others = [each for each in bootstrap if (each.host, each.port) not in own]
        self._bootstrap = {_FIRST_BOOTSTRAP_ID - place: (each.host, each.port) for place, each in enumerate(others)}
        self._leaders: dict[int, tuple[str, int]] = {}
        self._peers: dict[int, Peer] = {}
        self._outages = Outages(log)
        self._absent: dict[int, None] = {}
        self._strangers: dict[int, None] = {}

    @property
    def absent(self) -> tuple[int, ...]:
        """The nodes that refused the last connection."""
        return tuple(self._absent)

    @property
    def strangers(self) -> tuple[int, ...]:
        """The nodes that reported another cluster id in their last answer."""
        return tuple(self._strangers)

    @property
    def features_of_others(self) -> tuple[str, ...]:
        """The finalized features that the nodes asked so far support."""
        return tuple(dict.fromkeys(name for peer in self._peers.values() for name in peer.features))

    @property
    def bootstrap_ids(self) -> tuple[int, ...]:
        """The ids of the bootstrap servers: from -2 down, in the order of the setting."""
        return tuple(self._bootstrap)

    async def ask(self, node_id: int, request: Request, voters: VoterSet) -> Standing | None:
        """The node's answer; None if no readable answer arrives in time."""
        address = self.address_of(node_id, voters)
        if address is None:
            return None
        peer = self._peers.get(node_id)
        if peer is None:
            peer = self._peers[node_id] = Peer(
                address,
                self._network,
                partial(self._on_lost, node_id),
                outage=self._outages.of(_name(node_id)),
                is_prompt=not isinstance(request, AddVoter | RemoveVoter | UpdateVoter),
            )
        peer.move_to(address)
        receiver = next((key for key in voters.keys if key.node_id == node_id), ReplicaKey(BrokerId(node_id)))
        timeout_ms = self._request_timeout_ms + (request.max_wait_ms if isinstance(request, Fetch) else 0)
        try:
            if isinstance(request, AddVoter | RemoveVoter | UpdateVoter):
                change = encode_change(request, self._sender.cluster_id, self._request_timeout_ms)
                changed = await peer.request(cast(Any, change), timeout_ms)
                return Standing(error_name(changed.error_code))
            asked = encode_request(request, receiver, self._sender)
            response = cast(QuorumResponse, await peer.request(asked, timeout_ms))
            self._absent.pop(node_id, None)
            if address.name == self._sender.listeners[0].name:
                self._leaders.update(leader_addresses(response))  # the addresses of the listener that was asked
            answer = decode_answer(response)
            self._note_cluster(node_id, is_other=answer.error == _OF_ANOTHER_CLUSTER)
            return answer
        except NobodyListensError:
            self._absent[node_id] = None
            self._on_refused(node_id)
            return None
        except (NoAnswerError, ProtocolError):
            return None

    def _note_cluster(self, node_id: int, *, is_other: bool) -> None:
        if not is_other:
            self._strangers.pop(node_id, None)
        elif node_id not in self._strangers:
            self._strangers[node_id] = None
            self._on_stranger()

    def address_of(self, node_id: int, voters: VoterSet) -> BrokerListener | None:
        """The address of another node: its listener with the name of our first one, else any of its listeners. None if
        unknown."""
        name = self._sender.listeners[0].name
        found = self.listener_of(node_id, name, voters)
        if found is not None:
            return found
        points = (point for voter in voters.voters if voter.voter_id == node_id for point in voter.endpoints)
        return next((BrokerListener(point.name, point.host, point.port) for point in points), None)

    def listener_of(self, node_id: int, name: str, voters: VoterSet) -> BrokerListener | None:
        """The listener of a node with this name; None if unknown."""
        for voter in voters.voters:
            if voter.voter_id == node_id and voter.endpoints:
                points = (BrokerListener(each.name, each.host, each.port) for each in voter.endpoints)
                return next((point for point in points if point.name == name), None)
        is_asked_at = name == self._sender.listeners[0].name
        known = self._leaders.get(node_id) or self._bootstrap.get(node_id) if is_asked_at else None
        return None if known is None else BrokerListener(name, *known)

    def close(self) -> None:
        """Waiting requests end without an answer, and no more are sent."""
        for peer in self._peers.values():
            peer.close()
        self._outages.close()


def _name(node_id: int) -> str:
    """The node's name in the log."""
    if node_id >= 0:
        return f"controller {node_id}"
    return f"server {_FIRST_BOOTSTRAP_ID - node_id + 1} of controller.quorum.bootstrap.servers"
