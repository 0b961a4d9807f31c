"""Reads partitions without an end, as their records come."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Mapping

import pyarrow as pa

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.offsets import list_offsets
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP
from moldau.client.protocol.retries import NO_SUCH_TOPIC
from moldau.columnar.decode import MAX_OFFSET, next_fetch_offset
from moldau.columnar.reader import RangeReader, ReaderSettings, TopicRecreatedError
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.fetch import PartitionData

_OFFSET_OUT_OF_RANGE = ERROR_CODES["OFFSET_OUT_OF_RANGE"]


class TailReader(RangeReader):
    """`ends`: of each partition that has answered, the offset after the last record that can be read now.

    Continues at the first offset of a partition if its position is gone. While no broker can be reached, `poll` gives
    nothing.
    """

    def __init__(self, client: ClusterClient, settings: ReaderSettings) -> None:
        super().__init__(client, (), settings)
        self.ends: dict[TopicPartition, int] = {}

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions alone, from these offsets on; EARLIEST_TIMESTAMP is the first offset. Raises
        KafkaError."""
        self.close()
        first = {partition: at for partition, at in positions.items() if at == EARLIEST_TIMESTAMP}
        found = list_offsets(self._client, first) if first else {}
        self.positions = {**positions, **found}
        self._ends = dict.fromkeys(positions, MAX_OFFSET)
        self._unfinished = deque(positions)
        self.ends = {}

    def poll(self, wait_s: float) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """What has come, after at most `wait_s` and the time of a response. Raises KafkaError."""
        found: list[tuple[TopicPartition, pa.RecordBatch]] = []
        try:
            self._send_fetches()
            leaders = {self._connections[leader].fileno(): leader for leader in self._in_flight}
            ready, _, _ = select.select(list(leaders), (), (), wait_s)
            for number in ready:
                found.extend(self._receive(leaders[number]))
        except TopicRecreatedError as error:
            self.close()
            self._topic_ids.pop(error.topic, None)
        except KafkaError as error:
            if not error.is_retriable:
                raise
            self.close()
            for partition in self._unfinished:
                self._client.forget(partition.topic)
            self._pause(error)
        return found

    def _pause(self, error: KafkaError) -> None:
        """Raises the error of a topic that does not exist for long."""
        try:
            self._backoff.wait(error)
        except KafkaError:
            if error.code in NO_SUCH_TOPIC:
                raise
            self._backoff.reset()

    def _advance(self, partition: TopicPartition, row: PartitionData, is_empty: bool) -> None:
        if row.error_code == _OFFSET_OUT_OF_RANGE:
            self.positions[partition] = list_offsets(self._client, {partition: EARLIEST_TIMESTAMP})[partition]
            return
        if row.error_code:
            raise kafka_error(row.error_code, f"fetch of {partition} at {self.positions[partition]}")
        self._backoff.reset()
        position = next_fetch_offset(row.records) if row.records else None
        if position is not None:
            self.positions[partition] = max(position, self.positions[partition])
        elif row.records:
            raise kafka_error("RECORD_LIST_TOO_LARGE", f"{partition}: no whole batch in {len(row.records)} bytes")
        stable = row.last_stable_offset
        self.ends[partition] = row.high_watermark if stable < 0 else stable
