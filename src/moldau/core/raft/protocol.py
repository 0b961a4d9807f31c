"""Encodes and decodes the messages of the quorum as Kafka's requests and responses.

VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest, FetchSnapshotRequest.
An empty log has no last epoch: 0 in Kafka's messages, -1 in the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from moldau.core.metadata.image import BrokerListener
from moldau.core.raft.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    Request,
    SnapshotId,
    Standing,
    Vote,
    VoteAnswer,
)
from moldau.core.raft.voters import ReplicaKey
from moldau.errors import ERROR_CODES, ERROR_NAMES, KafkaError, ProtocolError, kafka_error
from moldau.types import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_UUID, BrokerId, Uuid
from moldau.wire.protocol.messages import fetch, quorum

MAX_BYTES = 1024 * 1024
"""The most bytes of one request for the metadata log or a snapshot: Kafka's `controller.quorum.fetch.max.bytes`."""

TOPIC, PARTITION = METADATA_PARTITION.topic, METADATA_PARTITION.partition

QuorumRequest: TypeAlias = (
    quorum.VoteRequest
    | quorum.BeginQuorumEpochRequest
    | quorum.EndQuorumEpochRequest
    | fetch.FetchRequest
    | quorum.FetchSnapshotRequest
)

QuorumResponse: TypeAlias = (
    quorum.VoteResponse
    | quorum.BeginQuorumEpochResponse
    | quorum.EndQuorumEpochResponse
    | fetch.FetchResponse
    | quorum.FetchSnapshotResponse
)
Row = TypeVar("Row", bound=msgspec.Struct)


class Sender(msgspec.Struct, frozen=True):
    """The sending node and its address."""

    node: ReplicaKey
    cluster_id: str
    listeners: tuple[BrokerListener, ...]


# --- requests to other nodes ---


def encode_request(request: Request, receiver: ReplicaKey, sender: Sender) -> QuorumRequest:
    """The message to `receiver` as Kafka's request."""
    match request:
        case Vote():
            return _encode_vote(request, sender)
        case BeginQuorumEpoch():
            begun = quorum.BeginQuorumEpochPartition(
                PARTITION, receiver.directory_id, request.leader_id, request.leader_epoch
            )
            topic = quorum.BeginQuorumEpochTopic(TOPIC, (begun,))
            points = _endpoints(sender.listeners)
            return quorum.BeginQuorumEpochRequest(sender.cluster_id, receiver.node_id, (topic,), points)
        case EndQuorumEpoch():
            ended = quorum.EndQuorumEpochPartition(
                PARTITION,
                request.leader_id,
                request.leader_epoch,
                tuple(key.node_id for key in request.preferred_successors),
                tuple(quorum.PreferredCandidate(key.node_id, key.directory_id) for key in request.preferred_successors),
            )
            topics = (quorum.EndQuorumEpochTopic(TOPIC, (ended,)),)
            return quorum.EndQuorumEpochRequest(sender.cluster_id, topics, _endpoints(sender.listeners))
        case Fetch():
            return _encode_fetch(request, sender)
        case FetchSnapshot():
            return _encode_fetch_snapshot(request, sender)
    raise ProtocolError(f"{type(request).__name__} stands in voter_protocol")


def _endpoints(listeners: Sequence[BrokerListener]) -> tuple[quorum.LeaderEndpoint, ...]:
    return tuple(quorum.LeaderEndpoint(each.name, each.host, each.port) for each in listeners)


def _encode_vote(request: Vote, sender: Sender) -> quorum.VoteRequest:
    partition = quorum.VotePartition(
        PARTITION,
        request.leader_epoch,
        request.candidate.node_id,
        request.candidate.directory_id,
        request.voter.directory_id,
        max(request.last_epoch, 0),
        request.log_end_offset,
        request.is_pre_vote,
    )
    topic = quorum.VoteTopic(TOPIC, (partition,))
    return quorum.VoteRequest(sender.cluster_id, request.voter.node_id, (topic,))


def _encode_fetch(request: Fetch, sender: Sender) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        PARTITION,
        request.leader_epoch,
        request.offset,
        max(request.last_fetched_epoch, 0),
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=sender.cluster_id,
        replica_state=fetch.ReplicaState(request.replica.node_id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=MAX_BYTES,
        topics=(fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def _encode_fetch_snapshot(request: FetchSnapshot, sender: Sender) -> quorum.FetchSnapshotRequest:
    partition = quorum.FetchSnapshotPartition(
        PARTITION,
        request.leader_epoch,
        quorum.SnapshotId(request.snapshot.end_offset, request.snapshot.epoch),
        request.position,
        request.replica.directory_id,
    )
    topic = quorum.FetchSnapshotTopic(TOPIC, (partition,))
    return quorum.FetchSnapshotRequest(sender.cluster_id, request.replica.node_id, MAX_BYTES, (topic,))


# --- their responses ---


def decode_answer(response: QuorumResponse) -> Standing:
    """The message of a response. Raises ProtocolError if it does not have the metadata partition."""
    if response.error_code:
        return Standing(error_name(response.error_code))
    match response:
        case quorum.VoteResponse():
            vote = _only(topic.partitions for topic in response.topics)
            return VoteAnswer(error_name(vote.error_code), vote.leader_id, vote.leader_epoch, vote.vote_granted)
        case quorum.BeginQuorumEpochResponse() | quorum.EndQuorumEpochResponse():
            known = _only(topic.partitions for topic in response.topics)
            return Standing(error_name(known.error_code), known.leader_id, known.leader_epoch)
        case fetch.FetchResponse():
            return _decode_fetched(_only(topic.partitions for topic in response.responses))
        case quorum.FetchSnapshotResponse():
            part = _only(topic.partitions for topic in response.topics)
            leader = part.current_leader
            error = error_name(part.error_code)
            return FetchSnapshotAnswer(error, leader.leader_id, leader.leader_epoch, part.size, part.unaligned_records)


def error_name(code: int) -> str:
    """Kafka's name of an error code; "" for 0."""
    return ERROR_NAMES.get(code, "UNKNOWN_SERVER_ERROR") if code else ""


def _only(partitions: Iterable[Sequence[Row]]) -> Row:
    """The one partition that a message must name. Raises ProtocolError for none or several."""
    rows = [row for part in partitions for row in part]
    if len(rows) != 1:
        raise ProtocolError(f"{len(rows)} partitions where only {METADATA_PARTITION} stands alone")
    return rows[0]


def _decode_fetched(row: fetch.PartitionData) -> FetchAnswer:
    diverging, snapshot = row.diverging_epoch, row.snapshot_id
    return FetchAnswer(
        error_name(row.error_code),
        row.current_leader.leader_id,
        row.current_leader.leader_epoch,
        row.high_watermark,
        b"" if row.records is None else row.records,
        (diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
    )


def leader_addresses(response: QuorumResponse) -> dict[int, tuple[str, int]]:
    """Host and port of each leader that a response names."""
    return {node.node_id: (node.host, node.port) for node in response.node_endpoints}


# --- requests from other nodes ---


def decode_request(request: QuorumRequest, receiver: Sender) -> Request:
    """The message of a request to `receiver`. Raises KafkaError for another cluster (104), another voter, another
    partition, or a value out of range."""
    if request.cluster_id is not None and request.cluster_id != receiver.cluster_id:
        raise kafka_error("INCONSISTENT_CLUSTER_ID")
    try:
        match request:
            case quorum.VoteRequest():
                return _decode_vote(request, receiver.node)
            case quorum.BeginQuorumEpochRequest():
                return _decode_begin(request, receiver.node)
            case quorum.EndQuorumEpochRequest():
                return _decode_end(request)
            case fetch.FetchRequest():
                return _decode_fetch(request)
            case quorum.FetchSnapshotRequest():
                return _decode_fetch_snapshot(request)
    except ProtocolError as error:
        raise kafka_error("INVALID_REQUEST", str(error)) from error


def _check(topic: str, partition: int, *not_negative: int) -> None:
    if (topic, partition) != (TOPIC, PARTITION):
        raise ProtocolError(f"{topic}-{partition} is not served here, only {METADATA_PARTITION}")
    if min(not_negative) < 0:
        raise ProtocolError("an id, an epoch or an offset below 0")


def _decode_vote(request: quorum.VoteRequest, node: ReplicaKey) -> Vote:
    row = _only(topic.partitions for topic in request.topics)
    at = row.replica_id, row.replica_epoch, row.last_offset_epoch, row.last_offset
    _check(request.topics[0].topic_name, row.partition_index, *at)
    return Vote(
        row.replica_epoch,
        ReplicaKey(BrokerId(row.replica_id), row.replica_directory_id),
        _receiver(request.voter_id, row.voter_directory_id, node),
        row.last_offset_epoch,
        row.last_offset,
        row.pre_vote,
    )


def _receiver(voter_id: int, directory_id: Uuid, node: ReplicaKey) -> ReplicaKey:
    """The key that the sender has for `node`. Before version 1 it sends none."""
    return ReplicaKey(node.node_id if voter_id < 0 else BrokerId(voter_id), directory_id)


def _decode_begin(request: quorum.BeginQuorumEpochRequest, node: ReplicaKey) -> BeginQuorumEpoch:
    row = _only(topic.partitions for topic in request.topics)
    _check(request.topics[0].topic_name, row.partition_index, row.leader_id, row.leader_epoch)
    voter = _receiver(request.voter_id, row.voter_directory_id, node)
    if voter.node_id != node.node_id or voter.directory_id not in (ZERO_UUID, node.directory_id):
        raise kafka_error("INVALID_VOTER_KEY")
    return BeginQuorumEpoch(row.leader_id, row.leader_epoch)


def _decode_end(request: quorum.EndQuorumEpochRequest) -> EndQuorumEpoch:
    row = _only(topic.partitions for topic in request.topics)
    _check(request.topics[0].topic_name, row.partition_index, row.leader_id, row.leader_epoch)
    candidates = tuple(
        ReplicaKey(BrokerId(each.candidate_id), each.candidate_directory_id) for each in row.preferred_candidates
    )
    successors = tuple(ReplicaKey(BrokerId(node_id)) for node_id in row.preferred_successors)
    return EndQuorumEpoch(row.leader_id, row.leader_epoch, candidates or successors)


def _decode_fetch(request: fetch.FetchRequest) -> Fetch:
    row = _only(topic.partitions for topic in request.topics)
    topic = request.topics[0]
    name = TOPIC if topic.topic_id == METADATA_TOPIC_ID else topic.topic
    at = row.current_leader_epoch, row.fetch_offset, row.last_fetched_epoch, request.max_wait_ms
    _check(name, row.partition, *at)
    return Fetch(
        ReplicaKey(BrokerId(max(request.replica_state.replica_id, request.replica_id)), row.replica_directory_id),
        row.current_leader_epoch,
        row.fetch_offset,
        row.last_fetched_epoch,
        row.high_watermark,
        request.max_wait_ms,
    )


def _decode_fetch_snapshot(request: quorum.FetchSnapshotRequest) -> FetchSnapshot:
    row = _only(topic.partitions for topic in request.topics)
    wanted = SnapshotId(row.snapshot_id.end_offset, row.snapshot_id.epoch)
    _check(request.topics[0].name, row.partition, row.position, wanted.end_offset, wanted.epoch)
    replica = ReplicaKey(BrokerId(request.replica_id), row.replica_directory_id)
    return FetchSnapshot(replica, row.current_leader_epoch, wanted, row.position)


# --- responses to them ---


def encode_answer(
    request: QuorumRequest, asked: Request, answer: Standing, leader: BrokerListener | None
) -> QuorumResponse:
    """`answer` to `asked`, as the response to `request`. `leader`: the address of the node that it names."""
    code = ERROR_CODES[answer.error] if answer.error else 0
    known, epoch = answer.leader_id, answer.leader_epoch
    nodes = () if leader is None else (quorum.LeaderNode(known, leader.host, leader.port),)
    match request:
        case quorum.VoteRequest():
            is_granted = isinstance(answer, VoteAnswer) and answer.is_granted
            voted = quorum.VotePartitionResult(PARTITION, code, known, epoch, is_granted)
            return quorum.VoteResponse(topics=(quorum.VoteTopicResult(TOPIC, (voted,)),), node_endpoints=nodes)
        case quorum.BeginQuorumEpochRequest() | quorum.EndQuorumEpochRequest():
            is_begin = isinstance(request, quorum.BeginQuorumEpochRequest)
            response = quorum.BeginQuorumEpochResponse if is_begin else quorum.EndQuorumEpochResponse
            standing = quorum.QuorumEpochPartition(PARTITION, code, known, epoch)
            return response(topics=(quorum.QuorumEpochTopic(TOPIC, (standing,)),), node_endpoints=nodes)
        case fetch.FetchRequest():
            return _encode_fetched(request, code, answer, leader)
        case quorum.FetchSnapshotRequest():
            return _encode_snapshot_part(asked, code, answer, nodes)


def encode_refusal(request: QuorumRequest, error: KafkaError) -> QuorumResponse:
    """The response to a request that `decode_request` rejected."""
    match request:
        case quorum.VoteRequest():
            return quorum.VoteResponse(error.code)
        case quorum.BeginQuorumEpochRequest():
            return quorum.BeginQuorumEpochResponse(error.code)
        case quorum.EndQuorumEpochRequest():
            return quorum.EndQuorumEpochResponse(error.code)
        case fetch.FetchRequest():
            return fetch.FetchResponse(error_code=error.code)
        case quorum.FetchSnapshotRequest():
            return quorum.FetchSnapshotResponse(error_code=error.code)


def _encode_fetched(
    request: fetch.FetchRequest, code: int, answer: Standing, leader: BrokerListener | None
) -> fetch.FetchResponse:
    row = fetch.PartitionData(
        PARTITION,
        code,
        high_watermark=-1,
        current_leader=fetch.LeaderIdAndEpoch(answer.leader_id, answer.leader_epoch),
        records=b"",
    )
    if isinstance(answer, FetchAnswer):
        row = msgspec.structs.replace(row, high_watermark=answer.high_watermark, records=answer.records)
        if answer.diverging is not None:
            row = msgspec.structs.replace(row, diverging_epoch=fetch.EpochEndOffset(*answer.diverging))
        if answer.snapshot is not None:
            wanted = fetch.SnapshotId(answer.snapshot.end_offset, answer.snapshot.epoch)
            row = msgspec.structs.replace(row, snapshot_id=wanted)
    topic = fetch.FetchableTopicResponse(request.topics[0].topic, request.topics[0].topic_id, (row,))
    nodes = () if leader is None else (fetch.NodeEndpoint(answer.leader_id, leader.host, leader.port),)
    return fetch.FetchResponse(responses=(topic,), node_endpoints=nodes)


def _encode_snapshot_part(
    asked: Request, code: int, answer: Standing, nodes: tuple[quorum.LeaderNode, ...]
) -> quorum.FetchSnapshotResponse:
    row = quorum.FetchSnapshotPartitionResult(
        PARTITION, code, current_leader=quorum.CurrentLeader(answer.leader_id, answer.leader_epoch)
    )
    if isinstance(asked, FetchSnapshot):
        wanted = quorum.SnapshotId(asked.snapshot.end_offset, asked.snapshot.epoch)
        row = msgspec.structs.replace(row, snapshot_id=wanted, position=asked.position)
    if isinstance(answer, FetchSnapshotAnswer):
        row = msgspec.structs.replace(row, size=answer.size, unaligned_records=answer.data)
    return quorum.FetchSnapshotResponse(topics=(quorum.FetchSnapshotTopicResult(TOPIC, (row,)),), node_endpoints=nodes)
