"""Traffic of partitions since the start of the node, for metrics: counted by each partition, summed on demand.

Names are those of Kafka's BrokerTopicMetrics. Sums of deleted partitions are kept: totals never decrease.
"""

from __future__ import annotations

from moldau.core.replication.partition import Partition

BYTES_REJECTED = "kafka.server:type=BrokerTopicMetrics,name=BytesRejectedPerSec"
FAILED_PRODUCE_REQUESTS = "kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec"
FAILED_FETCH_REQUESTS = "kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec"
PRODUCE_ERRORS = "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce"
FETCH_ERRORS = "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Fetch"
"""By error code, for each partition of each request."""
INVALID_MESSAGE_CRC_RECORDS = "kafka.server:type=BrokerTopicMetrics,name=InvalidMessageCrcRecordsPerSec"
REPLICATION_BYTES_IN = "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec"
REPLICATION_BYTES_OUT = "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec"
REASSIGNMENT_BYTES_IN = "kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesInPerSec"
REASSIGNMENT_BYTES_OUT = "kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesOutPerSec"
INVALID_SEQUENCE_RECORDS = "kafka.server:type=BrokerTopicMetrics,name=InvalidOffsetOrSequenceRecordsPerSec"


class Traffic:
    """Sums over some partitions."""

    __slots__ = ("bytes_in", "bytes_out", "fetch_requests", "messages_in", "produce_requests")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.produce_requests = 0
        """Counts each partition of each request, as Kafka does."""
        self.fetch_requests = 0

    def refused(self, count: int) -> None:
        """Counts produce requests that reached no log."""
        self.produce_requests += count

    def add(self, partition: Partition) -> None:
        """Adds the traffic of `partition` since the broker opened it."""
        self.bytes_in += partition.appended_bytes
        self.bytes_out += partition.fetched_bytes
        self.messages_in += partition.appended_records
        self.produce_requests += partition.produce_requests
        self.fetch_requests += partition.fetch_requests

    def add_all(self, other: Traffic) -> None:
        """Adds the sums of `other`."""
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.messages_in += other.messages_in
        self.produce_requests += other.produce_requests
        self.fetch_requests += other.fetch_requests
