"""The leader's answers to requests that change the voters of the quorum (KIP-853)."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from moldau.core.metadata.features import KRAFT_VERSION
from moldau.core.metadata.image import BrokerListener
from moldau.core.raft.messages import AddVoter, Standing
from moldau.core.raft.protocol import Sender
from moldau.core.raft.voter_changes import named
from moldau.core.raft.voter_protocol import (
    VoterRequest,
    VoterResponse,
    decode_change,
    encode_outcome,
    encode_voter_refusal,
    with_kraft_versions,
)
from moldau.core.raft.voters import ReplicaKey
from moldau.errors import KafkaError, kafka_error
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.shell.quorum.raft_driver import RaftDriver
from moldau.transport.network import Network
from moldau.types import BrokerId
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.raft_records import VotersRecordVoter
from moldau.wire.protocol.messages.raft_voters import AddRaftVoterRequest


class Addresses(Protocol):
    """Looks up addresses of nodes."""

    def listener_of(self, node_id: int, name: str) -> BrokerListener | None:
        """The listener of a node with this name; None if unknown."""
        ...


async def change_voters(
    raft: RaftDriver,
    addresses: Addresses,
    sender: Sender,
    network: Network,
    timeout_ms: int,
    request: VoterRequest,
    asked_at: str,
) -> VoterResponse:
    """Answers when the change is committed or rejected. `timeout_ms`: for requests without a time-out; `asked_at`: the
    name of the listener that received the request."""
    try:
        change = decode_change(request, sender.cluster_id, sender.listeners[0].name)
        outcome: Standing | None = raft.quorum.refusal(change)
        if outcome is None:
            if isinstance(change, AddVoter):
                change = msgspec.structs.replace(change, voter=await _asked(change.voter, sender, network, timeout_ms))
            wanted_ms = request.timeout_ms if isinstance(request, AddRaftVoterRequest) else timeout_ms
            async with asyncio.timeout(wanted_ms / 1_000):
                outcome = await raft.asked(change)
        return encode_outcome(request, outcome, addresses.listener_of(outcome.leader_id, asked_at))
    except TimeoutError:
        return encode_voter_refusal(request, kafka_error("REQUEST_TIMED_OUT"))
    except KafkaError as error:
        return encode_voter_refusal(request, error)


async def _asked(voter: VotersRecordVoter, sender: Sender, network: Network, timeout_ms: int) -> VotersRecordVoter:
    """`voter` with its supported versions, which it is asked for. Raises REQUEST_TIMED_OUT, INVALID_REQUEST."""
    point = next(each for each in voter.endpoints if each.name == sender.listeners[0].name)
    peer = Peer(BrokerListener(point.name, point.host, point.port), network)
    try:
        asked = ApiVersionsRequest(client_software_name="moldau", client_software_version="1")
        versions = await peer.request(asked, timeout_ms)
    except NoAnswerError as error:
        name = named(ReplicaKey(BrokerId(voter.voter_id), voter.voter_directory_id))
        raise kafka_error("REQUEST_TIMED_OUT", f"New voter {name} is not ready to receive requests") from error
    finally:
        peer.close()
    supported = next((each for each in versions.supported_features if each.name == KRAFT_VERSION), None)
    levels = (0, 0) if supported is None else (supported.min_version, supported.max_version)
    return with_kraft_versions(voter, *levels)
