"""One fetch from its first look to its answer: reads batches, and waits for more.

`core/replication/fetch_plan.py` decides; this module carries out the looks, waits, and answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.core.beat import beat_ms
from moldau.core.config.broker_settings import RACK_AWARE
from moldau.core.log.reading import HOLD_ANY, ColdRead
from moldau.core.replication.fetch_plan import (
    DIRECTORY_FAILED,
    LITTLE_BYTES,
    STREAM,
    FetchLook,
    FetchTerms,
    FetchWait,
    is_caught_up,
)
from moldau.core.replication.fetch_session import NO_SESSION_ID, SessionAnswer
from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, KafkaError, StorageFailedError
from moldau.shell.broker.handlers.fetch_targets import hosted_topics, readable_partition
from moldau.shell.broker.handlers.leader_hints import name_leaders
from moldau.shell.broker.handlers.near_replicas import near_replica
from moldau.shell.broker.replicas.follower_watch import FollowerWatch
from moldau.shell.broker.streamed_batch import StreamedBatch
from moldau.shell.broker.traffic import (
    FAILED_FETCH_REQUESTS,
    FETCH_ERRORS,
    REASSIGNMENT_BYTES_OUT,
    REPLICATION_BYTES_OUT,
)
from moldau.shell.network.context import RequestContext
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.telemetry import BOUND_REACHED
from moldau.wire.protocol.elsewhere import LeaderNode
from moldau.wire.protocol.fast_fetch import FetchEntry, FetchResult, Part, encode_fetch_response

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

LEADERS_FROM = 16
NOT_THE_LEADER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"], ERROR_CODES["FENCED_LEADER_EPOCH"]
ENTRIES_BETWEEN_PAUSES = 50
MAX_COLD_READS = 64


class ParkedFetch:
    """One fetch, from its first look to its answer. Keeps no view of the frame."""

    __slots__ = (
        "_has_ended",
        "_is_queued",
        "_max_wait_ms",
        "_response",
        "_timer",
        "_wait",
        "_watch",
        "broker",
        "context",
        "entries",
        "session",
        "terms",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        terms: FetchTerms,
        entries: list[FetchEntry],
        session: SessionAnswer | None,
    ) -> None:
        self.broker = broker
        self.context = context
        self.terms = terms
        self.entries = entries
        self.session = session
        self._watch: FollowerWatch | None = None
        self._response: PendingResponse | None = None
        self._max_wait_ms = 0
        """0: the next look is the last one."""
        self._wait: FetchWait | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Not None: the fetch is parked, and hears of each change of its partitions."""
        self._is_queued = False
        """Whether it waits for a later turn of the loop."""
        self._has_ended = False
        """Whether it is answered, or reads from the disk for its answer."""

    def watch_by(self, watch: FollowerWatch) -> None:
        """Looks only at the partitions with news of a follower's session."""
        self._watch = watch
        self.entries = watch.changed()

    # -- looking

    def _look_in_turn(self, *, is_own_turn: bool = False) -> FetchLook | None:
        """One look. None if there is much to read, and this turn of the loop has read its bytes. `is_own_turn`: the
        fetch has waited for this turn."""
        turns = self.broker.fetches.turns
        look = FetchLook(self.terms, is_little=not is_own_turn and turns.is_over)
        self._read(look, self.entries)
        if look.is_little:
            if look.is_incomplete:
                return None
        elif is_own_turn or look.size > LITTLE_BYTES:
            turns.read(look.size)
        if self._watch is not None:
            self._hasten(look, self._watch)
        return look

    @property
    def _is_rack_aware(self) -> bool:
        return self.broker.settings.replica_selector_class == RACK_AWARE

    def _read(self, look: FetchLook, entries: list[FetchEntry], *, may_stream: bool = True) -> None:
        """Reads the partitions of `entries`, up to the first one that stops the look."""
        broker, context, terms = self.broker, self.context, self.terms
        rack, is_follower, is_held_back, nearer = terms.rack, terms.is_follower, False, None
        memory = broker.response_memory
        allowance_bytes, held_bytes = memory.fetch_allowance_bytes(), HOLD_ANY
        if memory.is_short:
            if may_stream:
                held_bytes = allowance_bytes
            context.reply.press()
        look.allow(len(self.entries), allowance_bytes, held_bytes)
        for entry in entries:
            try:
                partition = readable_partition(broker, context, entry, is_follower)
            except KafkaError as error:
                look.refuse(entry, error.code)
                continue
            if is_follower:
                is_held_back = broker.replication.throttles.holds_back_from(terms.replica_id, partition)
            if rack:
                nearer = near_replica(broker, context, partition, rack, entry[3])
            todo = look.read(entry, partition, nearer, is_held_back)
            if todo == 0:
                continue
            if todo == DIRECTORY_FAILED:
                broker.directory_failed()
            elif todo == STREAM and look.later is not None:
                look.stream(StreamedBatch(broker.own_node, look.later))
            else:
                return

    def _hasten(self, look: FetchLook, watch: FollowerWatch) -> None:
        """If followers serve the consumers of their rack, a new high watermark is answered at once, as those consumers
        wait for it."""
        if self._is_rack_aware and watch.is_high_watermark_news(look.results):
            look.hasten()

    async def look_pausing(self) -> FetchLook:
        """One look at very many partitions, with pauses. Waits for the disk if needed."""
        look, cold_reads = FetchLook(self.terms), 0
        while look.count < len(self.entries):
            some = self.entries[look.count : look.count + ENTRIES_BETWEEN_PAUSES]
            self._read(look, some, may_stream=False)
            cold = look.take_cold()
            if cold is not None:
                cold_reads += 1
                await self._read_ahead(cold)
                if cold_reads == MAX_COLD_READS:
                    look.leave_cold_out()
            await self.context.pause(len(some))
        if self._watch is not None:
            self._hasten(look, self._watch)
        return look

    async def _read_ahead(self, cold: ColdRead) -> None:
        try:
            await self.context.wait(self.broker.own_node.workers.run(cold.run))
        except StorageFailedError:
            self.broker.directory_failed()

    # -- answering

    def _encode(self, look: FetchLook) -> list[Part]:
        """Encodes the whole response, with its frame."""
        context = self.context
        throttle_time_ms, error_code, session_id, results, nodes = self.finish(look)
        return encode_fetch_response(
            context.api_version,
            context.correlation_id,
            error_code,
            session_id,
            results,
            throttle_time_ms=throttle_time_ms,
            nodes=nodes,
        )

    def finish(self, look: FetchLook) -> tuple[int, int, int, list[FetchResult], Sequence[LeaderNode]]:
        """Completes the answer: its throttle time in ms, error code, session id, results, and the leaders that these
        name."""
        results = look.results
        if self._watch is not None:
            self._watch.told(results)
        throttle_time_ms = 0 if self.terms.is_follower else self.context.throttle(look.size)
        if throttle_time_ms:
            # a client over its quota gets nothing and no session now: it asks again after the wait
            results = []
        elif look.size:
            self._count(results)
        error_code, session_id = 0, NO_SESSION_ID
        if self.session is not None and not (throttle_time_ms and self.session.is_new):
            now_ms = self.broker.own_node.clock.monotonic_ms()
            error_code, session_id, results = self.session.finish(results, now_ms)
        nodes: Sequence[LeaderNode] = ()
        if look.is_urgent:
            self._count_errors(look.results)
            if self.terms.version >= LEADERS_FROM:
                nodes = name_leaders(self.broker, self.context, results, NOT_THE_LEADER)
        return throttle_time_ms, error_code, session_id, results, nodes

    def _count_errors(self, results: list[FetchResult]) -> None:
        for result in results:
            if result[2]:
                self.broker.own_node.telemetry.count(FAILED_FETCH_REQUESTS)
                self.broker.own_node.telemetry.count(FETCH_ERRORS, str(result[2]))

    def _count(self, results: list[FetchResult]) -> None:
        topics, terms = hosted_topics(self.broker, self.context), self.terms
        for topic, index, _, _, _, _, _, records, _ in results:
            if not records or (hosted := topics.get(topic)) is None or index not in hosted.partitions:
                continue
            partition = hosted.partitions[index]
            if not terms.is_follower:
                partition.fetched_bytes += len(records)
                continue
            self.broker.replication.throttles.sent(partition, len(records))
            self.broker.own_node.telemetry.count(REPLICATION_BYTES_OUT, amount=len(records))
            if partition.replica.is_being_added(terms.replica_id):
                self.broker.own_node.telemetry.count(REASSIGNMENT_BYTES_OUT, amount=len(records))

    def _answer(self, look: FetchLook) -> None:
        self._end()
        if self._response is not None:
            self._response.complete(self._encode(look))

    def _end(self) -> None:
        self._has_ended = True
        self._leave()

    # -- waiting

    def begin(self, max_wait_ms: int) -> Answer | PendingResponse:
        """Looks for the first time. Answers at once, or reserves the place of the answer, and waits for enough bytes,
        an error, or `max_wait_ms`.

        If too many fetches wait, answers with the result of this look: another look may find less in the page cache,
        and the answer of a new session must name each partition.
        """
        look = self._look_in_turn()
        if look is not None and look.cold is None:
            # a session with a watch waits for all its partitions, even if this request looks at none
            is_last = max_wait_ms <= 0 or not (self.entries or self._watch is not None)
            if look.is_due or is_last or self._is_rejected():
                return self._encode(look)
        self._max_wait_ms = max_wait_ms
        response = self._response = self.context.reply.reserve()
        if look is None:
            self._queue()
        elif look.cold is not None:
            self._read_from_disk(look.cold)
        else:
            self._park(look)
        return response

    def _is_rejected(self) -> bool:
        """Whether as many fetches wait as may."""
        broker = self.broker
        if broker.fetches.parked < broker.fetches.max_parked:
            return False
        broker.own_node.telemetry.count(BOUND_REACHED, "moldau.parked.fetches")
        return True

    def _park(self, look: FetchLook) -> None:
        broker, wait_ms = self.broker, self._max_wait_ms
        if self._response is not None:
            self._response.on_abandoned = self._leave
        if self._watch is not None:
            self._watch.park(self)
        else:
            topics = hosted_topics(broker, self.context)
            partitions = [topics[entry[0]].partitions[entry[1]] for entry in self.entries]
            self._wait = FetchWait(self.terms, partitions, look.size)
            broker.waits.add(partitions, self)
        if self.terms.is_follower:
            # aligned with the waits of others: otherwise an idle broker would wake for each follower alone, twice a
            # second
            now_ms = broker.own_node.clock.monotonic_ms()
            wait_ms = beat_ms(now_ms, wait_ms) - now_ms
        broker.fetches.parked += 1
        self._timer = broker.own_node.loop.call_later(wait_ms / 1000, self._wait_ended)

    def _leave(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self.broker.fetches.parked -= 1
        if self._watch is not None:
            self._watch.leave(self)
        elif self._wait is not None:
            self.broker.waits.remove(self._wait.partitions, self)

    def partition_changed(self, partition: Partition) -> None:
        """Looks again if the change may complete the answer. A look of a session with a watch covers all partitions
        that changed since the last answer, and each partition of a new topic changes while the fetch is parked."""
        if self._watch is not None:
            is_news = partition.is_deleted or self._is_rack_aware
            is_worth = is_news or not is_caught_up(self.terms, partition, self._watch.asked_of(partition))
        else:
            is_worth = self._wait is None or self._wait.is_worth_a_look(partition)
        if is_worth:
            self._look_at_changed()
            self._look_again()

    def _look_at_changed(self) -> None:
        if self._watch is not None:
            self.entries = self._watch.changed()

    def _wait_ended(self) -> None:
        """The next look is the last one: it is answered, whatever it finds."""
        self._max_wait_ms = 0
        self._leave()
        self._look_at_changed()
        self._look_again()

    def _queue(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self.broker.fetches.turns.wait(self._have_turn)

    def _have_turn(self) -> None:
        self._is_queued = False
        self._look_again(is_own_turn=True)

    def _look_again(self, *, is_own_turn: bool = False) -> None:
        """Looks once the transport takes more and the turn of the loop may read more. Then answers, or waits."""
        reply = self.context.reply
        if self._has_ended or reply.is_closed:
            return
        if reply.is_write_paused:
            if self._timer is not None:
                self._wait_ended()
            else:
                reply.when_writable(self._look_again)
            return
        look = self._look_in_turn(is_own_turn=is_own_turn)
        if look is None:
            self._queue()
        elif look.cold is not None:
            self._read_from_disk(look.cold)
        elif look.is_due or self._max_wait_ms <= 0:
            self._answer(look)
        elif self._wait is not None:
            self._wait.looked(look.size)
        elif self._timer is None:
            if self._is_rejected():
                self._answer(look)
            else:
                self._park(look)

    # -- reading from the disk

    def _read_from_disk(self, cold: ColdRead) -> None:
        """Reads through Workers: a slow disk stalls only this connection."""
        self._end()
        self.broker.spawn(self._read_cold(cold))

    async def _read_cold(self, cold: ColdRead | None) -> None:
        """Reads missing pieces into the page cache, and looks again until none is missing."""
        for _ in range(MAX_COLD_READS):
            if cold is None:
                break
            await self._read_ahead(cold)
            look = FetchLook(self.terms)
            self._read(look, self.entries)
            cold = look.cold
            if cold is None:
                self._answer(look)
                return
        # the page cache does not keep the pieces: answers with what it has, even if only of the first partitions
        look = FetchLook(self.terms, is_cold_left_out=True)
        self._read(look, self.entries)
        self._answer(look)
