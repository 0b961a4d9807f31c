"""Slow tiered storage answers without records, as a compacted tail does: a reader distinguishes both.

Moldau has no tiered storage, so the broker here has canned responses like those of Apache Kafka 4.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar import PartitionRange, read_range
from moldau.columnar.encode import columns_of, encode_batches
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import decode_request_header, encode_response_header
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.wire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.wire.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC = "tiered"
COUNT = 10
SPAN = PartitionRange(TOPIC, 0, 0, COUNT)


class TieringBroker(socketserver.ThreadingTCPServer):
    """One partition of COUNT records. `empty_answers`: the number of Fetch responses without them."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.bootstrap_servers = f"127.0.0.1:{self.server_address[1]}"
        self.local_start = 0
        self.empty_answers = 0
        self.list_offsets_version = 8
        self.asked: list[int] = []
        columns = columns_of(pa.RecordBatch.from_pydict({"value": [b"v"] * COUNT}), now_ms=0)
        (self.batch,) = (batch.data for batch in encode_batches(columns))

    def answer(self, request: object) -> msgspec.Struct:
        if isinstance(request, FetchRequest):
            records = b"" if self.empty_answers else self.batch
            self.empty_answers = max(0, self.empty_answers - 1)
            row = PartitionData(partition_index=0, high_watermark=COUNT, last_stable_offset=COUNT, records=records)
            return FetchResponse(responses=(FetchableTopicResponse(topic=TOPIC, partitions=(row,)),))
        if isinstance(request, ListOffsetsRequest):
            self.asked += [row.timestamp for topic in request.topics for row in topic.partitions]
            found = ListOffsetsPartitionResponse(partition_index=0, offset=self.local_start)
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=TOPIC, partitions=(found,)),))
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)
        return MetadataResponse(
            brokers=(MetadataResponseBroker(1, "127.0.0.1", self.server_address[1]),),
            topics=(MetadataResponseTopic(name=TOPIC, partitions=(partition,)),),
        )


class _Connection(socketserver.StreamRequestHandler):
    server: TieringBroker

    def handle(self) -> None:
        while length := self.rfile.read(4):
            data = memoryview(self.rfile.read(int.from_bytes(length, "big")))
            header, position = decode_request_header(data)
            key, version = ApiKey(header.api_key), header.api_version
            if key is ApiKey.API_VERSIONS:
                served = {ApiKey.METADATA: 9, ApiKey.FETCH: 12, ApiKey.LIST_OFFSETS: self.server.list_offsets_version}
                rows = tuple(ApiVersion(one, 4, newest) for one, newest in served.items())
                answer: msgspec.Struct = ApiVersionsResponse(api_keys=rows)
            else:
                answer = self.server.answer(decode_message(API_VERSIONS[key].request, version, data, position)[0])
            head = encode_response_header(header.correlation_id, response_header_version(key, version))
            self.wfile.write(frame(head, encode_message(answer, version)))


@pytest.fixture
def broker() -> Iterator[TieringBroker]:
    with TieringBroker() as broker:
        serving = threading.Thread(target=broker.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield broker
        broker.shutdown()
        serving.join(10)


def rows(broker: TieringBroker, **times: int) -> int:
    access = ClusterAccess(broker.bootstrap_servers, **times)
    batches: Iterator[tuple[TopicPartition, pa.RecordBatch]] = read_range(access, SPAN)
    return sum(batch.num_rows for _, batch in batches)


def test_a_slow_read_of_tiered_storage_is_asked_for_again(broker: TieringBroker) -> None:
    broker.local_start, broker.empty_answers = COUNT, 3
    assert rows(broker) == COUNT
    assert broker.asked == [-4]


def test_tiered_storage_that_gives_nothing_is_no_end_of_the_range(broker: TieringBroker) -> None:
    broker.local_start, broker.empty_answers = COUNT, 1 << 60
    with pytest.raises(KafkaError, match="nothing comes from tiered storage at offset 0") as caught:
        rows(broker, retry_timeout_ms=200)
    assert caught.value.name == "REQUEST_TIMED_OUT"


@pytest.mark.parametrize(("version", "asked"), [(8, [-4]), (7, [])])
def test_a_range_whose_tail_was_compacted_ends(broker: TieringBroker, version: int, asked: list[int]) -> None:
    broker.list_offsets_version, broker.empty_answers = version, 1 << 60
    assert rows(broker) == 0
    assert broker.asked == asked
