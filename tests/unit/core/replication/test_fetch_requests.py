"""The follower's side of a fetch session, compared with the leader's side, which must have the same partitions."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from moldau.core.replication.fetch_requests import FetchRequests, PartitionKey
from moldau.core.replication.fetch_session import FetchSessions, SessionAnswer
from moldau.errors import ERROR_CODES
from moldau.telemetry import Telemetry
from moldau.types import Uuid, whole
from moldau.wire.protocol.fast_fetch import fetch_question
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, ReplicaState

STATE = ReplicaState(1, 10)
T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)


def ask(requests: FetchRequests, wanted: dict[PartitionKey, int]) -> FetchRequest:
    entries = {key: FetchPartition(key[1], 5, offset) for key, offset in wanted.items()}
    left_out = [key for key in requests.asked if key not in wanted]
    return requests.next(entries, left_out, STATE, max_wait_ms=1, min_bytes=1, max_bytes=1)


def named(request: FetchRequest) -> dict[PartitionKey, int]:
    return {(topic.topic_id, row.partition): row.fetch_offset for topic in request.topics for row in topic.partitions}


def test_the_first_request_names_all_and_the_next_what_has_changed() -> None:
    requests = FetchRequests()
    first = ask(requests, {(T, 0): 0, (T, 1): 0, (U, 0): 0})
    assert (first.session_id, first.session_epoch, len(named(first))) == (0, 0, 3)
    requests.answered(FetchResponse(session_id=9))
    second = ask(requests, {(T, 0): 4, (T, 1): 0})
    assert (second.session_id, second.session_epoch, named(second)) == (9, 1, {(T, 0): 4})
    assert [(topic.topic_id, topic.partitions) for topic in second.forgotten_topics_data] == [(U, (0,))]


def test_a_leader_without_room_for_a_session_is_asked_in_full() -> None:
    requests = FetchRequests()
    for _ in range(2):
        request = ask(requests, {(T, 0): 0})
        assert (request.session_id, request.session_epoch, len(named(request))) == (0, 0, 1)
        requests.answered(FetchResponse())


def test_an_error_ends_the_session_and_the_next_request_is_full() -> None:
    requests = FetchRequests()
    ask(requests, {(T, 0): 0})
    requests.answered(FetchResponse(session_id=9))
    ask(requests, {(T, 0): 0})
    requests.answered(FetchResponse(error_code=ERROR_CODES["INVALID_FETCH_SESSION_EPOCH"]))
    request = ask(requests, {(T, 0): 0})
    assert requests.is_full
    assert (request.session_id, request.session_epoch, len(named(request))) == (9, 0, 1)


@given(
    st.lists(
        st.dictionaries(st.tuples(st.sampled_from((T, U)), st.integers(0, 3)), st.integers(0, 2), min_size=1),
        min_size=1,
        max_size=8,
    )
)
def test_the_session_of_the_leader_holds_what_is_wanted(story: list[dict[PartitionKey, int]]) -> None:
    ids = itertools.count(100)
    leader = FetchSessions(10, 1 << 20, lambda bound: next(ids), Telemetry())
    requests = FetchRequests()
    for wanted in story:
        *_, session_id, epoch, entries, forgotten, _ = whole(fetch_question(ask(requests, wanted), 17))
        answer = leader.begin(session_id, epoch, entries, forgotten, uses_topic_ids=True, is_replica=True, now_ms=0)
        assert isinstance(answer, SessionAnswer)
        assert {(entry[0], entry[1]): entry[3] for entry in answer.entries} == wanted
        rows = [(*entry[:2], 0, 0, 0, 0, None, None, None) for entry in answer.entries]
        error_code, answered_id, _ = answer.finish(rows, 0)
        requests.answered(FetchResponse(error_code=error_code, session_id=answered_id))
