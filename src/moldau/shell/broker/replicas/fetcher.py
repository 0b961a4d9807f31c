"""Fetches the followed partitions of one leader broker, with one request at a time for all of them.

Each replica states its next offset (FetchFrom), and waits. A request asks for all of these when it leaves. The replicas
get their parts of the answer one after the other. After an error or no answer a replica waits for its back-off, and the
others continue.

While followers flush new records (`flush.messages=1`), the next request waits for them. Otherwise it would leave
without them, and wait at the leader for the records of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from moldau.core.replication.fetch_requests import FetchRequests, PartitionKey
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import Event, FetchAnswered, FetchFailed, FetchFrom, FetchOutOfRange
from moldau.errors import ERROR_CODES
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.replicas.throttles import ReplicationThrottles
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.types import ZERO_UUID
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData, ReplicaState
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

OFFSET_OUT_OF_RANGE = ERROR_CODES["OFFSET_OUT_OF_RANGE"]
EARLIEST = -4
"""The start of the local log, without tiered records."""
LATEST = -1

LOOK_INTERVAL_MS = 5_000
"""The pause between two looks at all entries, which drop partitions that are no longer followed. In between, with
thousands of partitions, a request costs only as much as its news."""
QUIET_LOOK_INTERVAL_MS = 30_000
"""The same pause without any news since the last look."""
THROTTLE_PAUSE_S = 0.1
"""The pause of a fetcher while all its replicas are throttled."""

Wanted = tuple[Partition, FetchFrom]


class ReplicaFetcher:
    """Used from the broker's loop only. `step` passes an event to a replica. `flush` requests a flush after the log
    start moved: until the leader epochs on the disk have the new start too, a start would take the checkpoint for
    damaged."""

    def __init__(
        self,
        node: OwnNode,
        peer: Peer,
        broker_epoch: int,
        throttles: ReplicationThrottles,
        step: Callable[[Partition, Event], None],
        flush: Callable[[Partition], None],
    ) -> None:
        self._flush = flush
        self._node = node
        self._peer = peer
        self._broker_epoch = broker_epoch
        self._throttles = throttles
        self._step = step
        self._requests = FetchRequests()
        self._wanted: dict[PartitionKey, Wanted] = {}
        self._asked: dict[PartitionKey, Wanted] = {}
        """The entries when the last request left. Updated in place, as copying thousands of entries would be much of
        the work of a request without news."""
        self._new: dict[PartitionKey, None] = {}
        """The partitions to add to, update in or remove from the fetch session with the next request."""
        self._look_ms = 0
        """When all entries are looked at again."""
        self._flushing: dict[int, Partition] = {}
        """Partitions that fetch again after their flush."""
        self._flushed = asyncio.Event()
        self._is_running = False
        self._is_connected = False
        """Whether the last request was answered."""

    def registered(self, broker_epoch: int) -> None:
        """Fetches under `broker_epoch` from now on; without an epoch nothing is fetched."""
        self._broker_epoch = broker_epoch
        self._begin()

    def fetch(self, partition: Partition, wanted: FetchFrom) -> None:
        """Adds `wanted` to the next request, in place of the earlier entry of `partition`."""
        key = partition.topic_id or ZERO_UUID, partition.topic_partition.partition
        self._wanted[key] = partition, wanted
        self._new[key] = None
        self._flushing.pop(partition.number, None)
        if not self._flushing:
            self._flushed.set()
        self._begin()

    def _begin(self) -> None:
        if self._wanted and not self._is_running and self._broker_epoch >= 0:
            self._is_running = True
            self._node.spawn_lasting(self._run())

    async def _run(self) -> None:
        try:
            while self._wanted:
                await self._wait_for_flushes()
                await self._fetch_once()
        finally:
            self._is_running = False

    async def _wait_for_flushes(self) -> None:
        if self._flushing:
            self._flushed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._node.settings.view.replica_fetch_wait_max_ms / 1_000):
                    await self._flushed.wait()
            self._flushing.clear()

    async def _fetch_once(self) -> None:
        """Sends one request, and handles the answer."""
        is_full = self._requests.is_full
        entries, left_out = self._sort_out()
        if not entries and all(key in left_out for key in self._requests.asked):
            self._new.update(left_out)
            if self._wanted:
                await asyncio.sleep(THROTTLE_PAUSE_S)
            return
        request = self._request(entries, left_out)
        try:
            answer = await self._peer.request(request, self._node.settings.view.replica_socket_timeout_ms)
        except NoAnswerError:
            self._requests.begin_anew()
            if self._is_connected:
                # the connection ended, but the leader may live: asks for all partitions again on a new one
                self._is_connected = False
                return
            await self._fail()
            return
        self._is_connected = True
        self._requests.answered(answer)
        if not answer.error_code:
            await self._take_all(answer)
        elif is_full:
            await self._fail()

    def _sort_out(self) -> tuple[dict[PartitionKey, FetchPartition], dict[PartitionKey, None]]:
        """The new entries for the leader, and the replicas to leave out, which no longer follow or are throttled.
        Replicas without a change are checked from time to time, not with every request."""
        now_ms, max_bytes = self._node.clock.monotonic_ms(), self._node.settings.view.replica_fetch_max_bytes
        keys, self._new = self._new, {}
        if keys:
            self._look_ms = min(self._look_ms, now_ms + LOOK_INTERVAL_MS)
        if self._requests.is_full or now_ms >= self._look_ms:
            self._look_ms = now_ms + QUIET_LOOK_INTERVAL_MS
            keys |= dict.fromkeys(self._wanted)
        entries: dict[PartitionKey, FetchPartition] = {}
        left_out: dict[PartitionKey, None] = {}
        for key in keys:
            entry = self._wanted.get(key)
            if entry is None or not entry[0].is_following(entry[1].leader_epoch):
                self._wanted.pop(key, None)
                self._asked.pop(key, None)
                left_out[key] = None
                continue
            self._asked[key] = entry
            partition, wanted = entry
            if self._throttles.holds_back(partition):
                self._new[key] = left_out[key] = None
            else:
                place = wanted.leader_epoch, wanted.offset, wanted.last_fetched_epoch
                entries[key] = FetchPartition(key[1], *place, partition.log.log_start_offset, max_bytes)
        return entries, left_out

    def _request(self, entries: dict[PartitionKey, FetchPartition], left_out: dict[PartitionKey, None]) -> FetchRequest:
        view = self._node.settings.view
        return self._requests.next(
            entries,
            left_out,
            ReplicaState(self._node.node_id, self._broker_epoch),
            max_wait_ms=view.replica_fetch_wait_max_ms,
            min_bytes=view.replica_fetch_min_bytes,
            max_bytes=view.replica_fetch_response_max_bytes,
        )

    async def _fail(self) -> None:
        for key, entry in list(self._asked.items()):
            self._refuse(key, entry)
            await self._node.pauses.pause()

    def _refuse(self, key: PartitionKey, entry: Wanted) -> None:
        if self._is_still_wanted(key, entry):
            partition, wanted = entry
            self._step(partition, FetchFailed(wanted.leader_epoch))

    def _is_still_wanted(self, key: PartitionKey, entry: Wanted) -> bool:
        """Removes the entry, which is answered now. False: the replica has a newer entry."""
        if self._wanted.get(key) is not entry:
            return False
        del self._wanted[key]
        self._new[key] = None
        return True

    async def _take_all(self, answer: FetchResponse) -> None:
        for topic in answer.responses:
            for row in topic.partitions:
                key = topic.topic_id, row.partition_index
                entry = self._asked.get(key)
                if entry is not None:
                    await self._take(key, entry, row)
                    await self._node.pauses.pause()

    async def _take(self, key: PartitionKey, entry: Wanted, row: PartitionData) -> None:
        if row.error_code == OFFSET_OUT_OF_RANGE:
            await self._find_range(key, entry)
            return
        if row.error_code:
            self._refuse(key, entry)
            return
        if not self._is_still_wanted(key, entry):
            return
        partition, wanted = entry
        epoch, end_offset = row.diverging_epoch.epoch, row.diverging_epoch.end_offset
        diverging = None if epoch < 0 else (epoch, end_offset)
        self._step(
            partition,
            FetchAnswered(wanted.leader_epoch, wanted.offset, row.high_watermark, row.records or b"", diverging),
        )
        if not partition.is_following(wanted.leader_epoch) or diverging is not None:
            return
        if partition.follow_log_start(row.log_start_offset):
            self._flush(partition)
        if partition.waits_for_flush and key not in self._wanted:
            self._flushing[partition.number] = partition

    async def _find_range(self, key: PartitionKey, entry: Wanted) -> None:
        """The requested offset is outside of the leader's log: asks for the start and end of that log."""
        partition, wanted = entry
        place = partition.topic_partition
        start_offset, end_offset = await self._ask_offset(entry, EARLIEST), await self._ask_offset(entry, LATEST)
        if start_offset is None or end_offset is None:
            self._refuse(key, entry)
        elif self._is_still_wanted(key, entry):
            self._node.log.warn(
                "replica out of range",
                f"{place}: offset {wanted.offset} lies outside of the leader's log, {start_offset} to {end_offset}",
                about=str(place),
            )
            self._step(partition, FetchOutOfRange(wanted.leader_epoch, wanted.offset, start_offset, end_offset))

    async def _ask_offset(self, entry: Wanted, timestamp: int) -> int | None:
        """The offset; None if the leader gives none."""
        partition, wanted = entry
        place = partition.topic_partition
        asked = ListOffsetsPartition(place.partition, wanted.leader_epoch, timestamp)
        request = ListOffsetsRequest(self._node.node_id, topics=(ListOffsetsTopic(place.topic, (asked,)),))
        try:
            answer = await self._peer.request(request, self._node.settings.view.replica_socket_timeout_ms)
        except NoAnswerError:
            return None
        rows = [row for topic in answer.topics for row in topic.partitions if not row.error_code]
        return rows[0].offset if rows else None
