"""Fetch: reads record batches, at once or when enough are available."""

from __future__ import annotations

from contextlib import suppress
from itertools import starmap
from typing import TYPE_CHECKING, cast

from msgspec.structs import astuple, replace

from moldau.core.replication.fetch_plan import fetch_terms, refused
from moldau.core.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION_ID, SessionAnswer
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.broker.handlers.follower_fetch import note_follower
from moldau.shell.broker.handlers.parked_fetch import ParkedFetch
from moldau.shell.broker.handlers.rows import rows_by_topic
from moldau.shell.broker.replicas.follower_watch import is_watched
from moldau.shell.network.context import RequestContext
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.rights import CLUSTER_ACTION
from moldau.types import Buffer, Uuid, whole
from moldau.wire.protocol.elsewhere import CurrentLeader, PreferredReadReplica
from moldau.wire.protocol.fast_fetch import (
    TOPIC_IDS_FROM,
    AbortedTransactions,
    Elsewhere,
    FetchEntry,
    FetchQuestion,
    FetchResult,
    Part,
    decode_fetch_request,
    encode_fetch_response,
    fetch_question,
)
from moldau.wire.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

FETCH_SESSION_ID_NOT_FOUND = ERROR_CODES["FETCH_SESSION_ID_NOT_FOUND"]
MANY_BYTES = 32 << 10
"""A longer request may name a thousand partitions, and is decoded and answered with pauses."""
MAX_SESSION_PARTITIONS = 5_000
"""Keeping a session of more partitions would take longer than other clients should wait."""
LOOK_AGAIN_S = 0.1
MAX_LONG_WAIT_S = 1
"""A waiting long request occupies the memory for long requests. It is answered after this time, and its client asks
again."""


def act_fetch(broker: Broker, context: RequestContext, frame: memoryview, position: int) -> Answer | PendingResponse:
    """Versions 4-18. v4 isolation level (KIP-98), v5 log start offset, v7 fetch sessions (KIP-227), v9 leader epoch
    (KIP-320), v11 rack (KIP-392), v12 last fetched epoch (KIP-595), v13 topic ids (KIP-516), v15 replica state
    (KIP-903), v16 leader hints (KIP-951), v17 directory ids (KIP-853), v18 a follower's high watermark (KIP-1166).

    From version 11 on consumers read from followers too. If `replica.selector.class` asks for it, the leader sends a
    consumer to a replica in its rack. Ignored on purpose: the directory and the high watermark that a follower names. A
    follower needs ClusterAction, else each partition gets 29, as in Kafka. read_committed reads to the last stable
    offset, and names the aborted transactions.
    """
    if len(frame) > MANY_BYTES:
        return context.serve_long(frame, position)
    version, correlation_id = context.api_version, context.correlation_id
    question = decode_fetch_request(frame, position, version)
    entries = question[-3]
    if len(entries) > 1:
        # of a partition that is named twice the last entry counts, in the place of the first
        entries = list({entry[:2]: entry for entry in entries}.values())
    try:
        fetch = _begin(broker, context, question, entries)
    except KafkaError as error:
        rows = [refused(entry, error.code) for entry in entries]
        return encode_fetch_response(version, correlation_id, 0, NO_SESSION_ID, rows)
    if isinstance(fetch, int):
        return encode_fetch_response(version, correlation_id, fetch, NO_SESSION_ID, [])
    if fetch.terms.is_follower:
        whole(note_follower(broker, fetch, entries))
    return fetch.begin(question[1])


async def act_fetch_many(broker: Broker, context: RequestContext, request: FetchRequest) -> FetchResponse:
    """As `act_fetch`, for a request with more partitions than can be read in a millisecond. While the records are too
    few, looks again from time to time, for MAX_LONG_WAIT_S at most. Very many partitions get no session: the client
    continues without."""
    question = await context.finish(fetch_question(request, context.api_version))
    by_place: dict[tuple[bytes, int], FetchEntry] = {}
    for entry in question[-3]:
        by_place[entry[:2]] = entry
        await context.pause()
    entries = list(by_place.values())
    if len(entries) > MAX_SESSION_PARTITIONS:
        if question[6] > INITIAL_EPOCH:
            return FetchResponse(error_code=FETCH_SESSION_ID_NOT_FOUND)
        question = (*question[:6], FINAL_EPOCH, *question[7:])
    try:
        fetch = _begin(broker, context, question, entries)
    except KafkaError as error:
        rows = []
        for entry in entries:
            rows.append(refused(entry, error.code))
            await context.pause()
        return FetchResponse(responses=await _rows(context, rows))
    if isinstance(fetch, int):
        return FetchResponse(error_code=fetch)
    end_s = broker.own_node.loop.time() + min(question[1] / 1_000, MAX_LONG_WAIT_S)
    if fetch.terms.is_follower:
        await context.finish(note_follower(broker, fetch, entries))
    look = await fetch.look_pausing()
    while not look.is_due and (now_s := broker.own_node.loop.time()) < end_s:
        with suppress(KafkaError):
            await context.wait(broker.own_node.loop.create_future(), min(end_s, now_s + LOOK_AGAIN_S))
        if context.reply.is_closed:
            break
        look = await fetch.look_pausing()
    throttle_time_ms, error_code, session_id, results, nodes = fetch.finish(look)
    endpoints = tuple(NodeEndpoint(*astuple(node)) for node in nodes)
    return FetchResponse(throttle_time_ms, error_code, session_id, await _rows(context, results), endpoints)


async def _rows(context: RequestContext, results: list[FetchResult]) -> tuple[FetchableTopicResponse, ...]:
    """The rows of many results, made with pauses: `encode_fetch_response` would take long for them."""

    def topic_of(topic: bytes, rows: tuple[PartitionData, ...]) -> FetchableTopicResponse:
        if context.api_version >= TOPIC_IDS_FROM:
            return FetchableTopicResponse(topic_id=Uuid(topic), partitions=rows)
        return FetchableTopicResponse(topic.decode(), partitions=rows)

    return await context.finish(rows_by_topic(results, _row, topic_of))


def _row(
    index: int,
    code: int,
    high_watermark: int,
    stable_offset: int,
    start_offset: int,
    elsewhere: Elsewhere,
    records: Part | None,
    aborted: AbortedTransactions | None,
) -> PartitionData:
    transactions = None if aborted is None else tuple(starmap(AbortedTransaction, aborted))
    data = cast(Buffer, records or b"")
    row = PartitionData(
        index, code, high_watermark, stable_offset, start_offset, aborted_transactions=transactions, records=data
    )
    match elsewhere:
        case CurrentLeader(leader_id, leader_epoch):
            return replace(row, current_leader=LeaderIdAndEpoch(leader_id, leader_epoch))
        case PreferredReadReplica(broker_id):
            return replace(row, preferred_read_replica=broker_id)
        case (epoch, end_offset):
            return replace(row, diverging_epoch=EpochEndOffset(epoch, end_offset))
    return row


def _begin(
    broker: Broker, context: RequestContext, question: FetchQuestion, entries: list[FetchEntry]
) -> ParkedFetch | int:
    """The fetch of `entries` or of its session, or the error code of the whole request. Raises the error of each
    entry."""
    (replica_id, _), _, _, _, _, session_id, session_epoch, _, forgotten, _ = question
    is_follower = replica_id >= 0
    if is_follower:
        context.fetched_by_replica()
        if not context.authorize(CLUSTER_ACTION):
            raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
    quota_bytes = None if is_follower else context.max_fetch_bytes()
    try:
        terms = fetch_terms(question, context.api_version, broker.fetches.max_bytes, quota_bytes)
    except KafkaError as error:
        if session_epoch > INITIAL_EPOCH:
            # its partitions are in the session, which a rejected request does not change
            return error.code
        raise
    session: SessionAnswer | None = None
    if session_epoch != FINAL_EPOCH or session_id != NO_SESSION_ID:
        begun = broker.fetches.sessions.begin(
            session_id,
            session_epoch,
            entries,
            forgotten,
            uses_topic_ids=context.api_version >= TOPIC_IDS_FROM,
            is_replica=is_follower,
            now_ms=broker.own_node.clock.monotonic_ms(),
        )
        if isinstance(begun, int):
            return begun
        if begun is not None:
            session = begun
            # the watch of a follower's session names the changed partitions: no look at all of them
            entries = [] if is_follower and is_watched(begun.session) else begun.entries
    return ParkedFetch(broker, context, terms, entries, session)
