"""Messages of the quorum become Kafka's requests and responses, and the same messages again."""

from __future__ import annotations

import pytest

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
from moldau.core.raft.protocol import (
    QuorumRequest,
    Sender,
    decode_answer,
    decode_request,
    encode_answer,
    encode_refusal,
    encode_request,
    leader_addresses,
)
from moldau.core.raft.voters import ReplicaKey
from moldau.errors import KafkaError, kafka_error
from moldau.types import BrokerId, Uuid
from moldau.wire.protocol.api_keys import api_key_of, declared_api
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.messages.fetch import FetchRequest, FetchTopic
from moldau.wire.protocol.messages.quorum import VotePartition, VoteRequest, VoteTopic

ONE, TWO = ReplicaKey(BrokerId(1), Uuid(b"\x01" * 16)), ReplicaKey(BrokerId(2), Uuid(b"\x02" * 16))
CLUSTER = "tBkDQh1jQTWVvPkPqJ9o1w"
SENDER = Sender(ONE, CLUSTER, (BrokerListener("CONTROLLER", "one", 9093),))
RECEIVER = Sender(TWO, CLUSTER, (BrokerListener("CONTROLLER", "two", 9093),))
SNAPSHOT = SnapshotId(50, 3)

REQUESTS: list[Request] = [
    Vote(5, ONE, TWO, 4, 99, is_pre_vote=True),
    Vote(5, ONE, TWO, 4, 99, is_pre_vote=False),
    BeginQuorumEpoch(1, 5),
    EndQuorumEpoch(1, 5, (TWO, ReplicaKey(BrokerId(3)))),
    Fetch(ONE, 5, 99, 4, 90, 500),
    FetchSnapshot(ONE, 5, SNAPSHOT, 1_000),
]
ANSWERS: dict[type[Request], list[Standing]] = {
    Vote: [VoteAnswer("", 2, 5, is_granted=True), VoteAnswer("FENCED_LEADER_EPOCH", -1, 9)],
    BeginQuorumEpoch: [Standing("", 1, 5), Standing("FENCED_LEADER_EPOCH", 2, 9)],
    EndQuorumEpoch: [Standing("", 1, 5)],
    Fetch: [
        FetchAnswer("", 2, 5, 90, b"records"),
        FetchAnswer("", 2, 5, 90, b"", (3, 70)),
        FetchAnswer("", 2, 5, 90, b"", None, SNAPSHOT),
        FetchAnswer("NOT_LEADER_OR_FOLLOWER", 3, 6),
    ],
    FetchSnapshot: [
        FetchSnapshotAnswer("", 2, 5, 2_000, b"part"),
        FetchSnapshotAnswer("SNAPSHOT_NOT_FOUND", 2, 5),
    ],
}


def over_the_wire(request: QuorumRequest) -> QuorumRequest:
    version = declared_api(api_key_of(request)).max_version
    return decode_message(type(request), version, encode_message(request, version))[0]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_is_understood_as_it_was_meant(request_: Request) -> None:
    assert decode_request(over_the_wire(encode_request(request_, TWO, SENDER)), RECEIVER) == request_


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_an_answer_is_understood_as_it_was_meant_and_says_where_the_leader_is(request_: Request) -> None:
    asked = encode_request(request_, TWO, SENDER)
    row = declared_api(api_key_of(asked))
    for answer in ANSWERS[type(request_)]:
        response = encode_answer(asked, request_, answer, BrokerListener("CONTROLLER", "leader", 9093))
        read = decode_message(type(response), row.max_version, encode_message(response, row.max_version))[0]
        assert decode_answer(read) == answer
        assert leader_addresses(read) == {answer.leader_id: ("leader", 9093)}


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_of_another_cluster_is_refused(request_: Request) -> None:
    asked = encode_request(request_, TWO, Sender(ONE, "AAAAAAAAAAAAAAAAAAAAAA", SENDER.listeners))
    with pytest.raises(KafkaError) as caught:
        decode_request(asked, RECEIVER)
    assert caught.value.code == 104
    assert decode_answer(encode_refusal(asked, caught.value)) == Standing("INCONSISTENT_CLUSTER_ID")


def test_an_empty_log_has_epoch_0_on_the_wire() -> None:
    """Kafka rejects a negative one."""
    fetch = decode_request(encode_request(Fetch(ONE, 5, 0, -1, 0, 500), TWO, SENDER), RECEIVER)
    vote = decode_request(encode_request(Vote(5, ONE, TWO, -1, 0, is_pre_vote=False), TWO, SENDER), RECEIVER)
    assert isinstance(fetch, Fetch)
    assert isinstance(vote, Vote)
    assert (fetch.last_fetched_epoch, vote.last_epoch) == (0, 0)


def test_the_news_of_an_epoch_for_another_voter_are_refused() -> None:
    asked = encode_request(BeginQuorumEpoch(1, 5), ReplicaKey(BrokerId(3)), SENDER)
    with pytest.raises(KafkaError) as caught:
        decode_request(asked, RECEIVER)
    assert caught.value.code == kafka_error("INVALID_VOTER_KEY").code


def test_a_request_from_before_directories_is_for_whoever_gets_it() -> None:
    row = VotePartition(0, 5, 1, last_offset_epoch=4, last_offset=99)
    vote = decode_request(VoteRequest(None, -1, (VoteTopic("__cluster_metadata", (row,)),)), RECEIVER)
    assert vote == Vote(5, ReplicaKey(BrokerId(1)), ReplicaKey(BrokerId(2)), 4, 99, is_pre_vote=False)


@pytest.mark.parametrize(
    "asked",
    [
        VoteRequest(None, 2, ()),
        VoteRequest(None, 2, (VoteTopic("other", (VotePartition(),)),)),
        VoteRequest(None, 2, (VoteTopic("__cluster_metadata", (VotePartition(1),)),)),
        VoteRequest(None, 2, (VoteTopic("__cluster_metadata", (VotePartition(0, -1),)),)),
        VoteRequest(None, 2, (VoteTopic("__cluster_metadata", (VotePartition(), VotePartition())),)),
        FetchRequest(topics=(FetchTopic("other"),)),
    ],
)
def test_what_names_anything_but_the_metadata_partition_is_an_invalid_request(asked: QuorumRequest) -> None:
    with pytest.raises(KafkaError) as caught:
        decode_request(asked, RECEIVER)
    assert caught.value.code == kafka_error("INVALID_REQUEST").code
