"""Metrics that Apache Kafka 4.4 has in JMX and this node lacks, with the reasons: a meaningless value is not made up.

(type in JMX, attributes; "" for all of the type, reason)
"""

from __future__ import annotations

_ONE_LOOP = (
    "requests are handled on one event loop: there are no queues and no thread pools; see moldau_loop_late_seconds"
)
_NO_SHARES = "share groups are not served yet"
_AT_ONCE = "the controller decides each request when it comes: it has no event queue"
_NOT_MEASURED = "not measured yet"
_IN_PLACE = "a coordinator decides and appends in one step: no background queue, no lingering batch"

ABSENT: tuple[tuple[str, str, str], ...] = (
    ("kafka.controller:ControllerEventManager", "", _AT_ONCE),
    ("kafka.controller:ControllerStats", "ElectionFromEligibleLeaderReplicasPerSec", _NOT_MEASURED),
    ("kafka.controller:KafkaController", "EventQueueOperationsStartedCount, EventQueueOperationsTimedOutCount",
     _AT_ONCE),
    ("kafka.controller:KafkaController", "TimeSinceLastHeartbeatReceivedMs, TimedOutBrokerHeartbeatCount",
     _NOT_MEASURED),
    ("kafka.controller:KafkaController", "LastAppliedRecordLagMs, LastAppliedRecordTimestamp, IgnoredStaticVoters",
     "the broker applies a record in the loop turn that commits the record"),
    ("kafka.log:LogCleaner", "DeadThreadCount", "the broker starts the cleaner's process again when that process dies"),
    ("kafka.log:LogCleanerManager", "time-since-last-run-ms, uncleanable-bytes", _NOT_MEASURED),
    ("kafka.log:LogFlushStats", "", _NOT_MEASURED),
    ("kafka.network:Acceptor", "", _ONE_LOOP),
    ("kafka.network:Processor", "", _ONE_LOOP),
    ("kafka.network:RequestChannel", "", _ONE_LOOP),
    ("kafka.network:RequestMetrics", "RequestQueueTimeMs, ResponseQueueTimeMs", _ONE_LOOP),
    ("kafka.network:RequestMetrics", "ResponseSendTimeMs, ThrottleTimeMs", _NOT_MEASURED),
    ("kafka.network:RequestMetrics", "MessageConversionsTimeMs, TemporaryMemoryBytes", "nothing is converted"),
    ("kafka.network:SocketServer", "NetworkProcessorAvgIdlePercent", _ONE_LOOP),
    ("kafka.server:KafkaRequestHandlerPool", "", _ONE_LOOP),
    ("kafka.server:AddPartitionsManager-channel-metrics", "", _NOT_MEASURED),
    ("kafka.server:txn-marker-channel-metrics", "", _NOT_MEASURED),
    ("kafka.server:AssignmentsManager", "", "a directory is assigned without a queue"),
    ("org.apache.kafka.server:AssignmentsManager", "", "a directory is assigned without a queue"),
    ("kafka.server:BrokerMetadataListener", "", _NOT_MEASURED),
    ("kafka.server:BrokerTopicMetrics",
     "TotalShareFetchRequestsPerSec, FailedShareFetchRequestsPerSec, TotalShareAcknowledgementRequestsPerSec, "
     "FailedShareAcknowledgementRequestsPerSec", _NO_SHARES),
    ("kafka.server:BrokerTopicMetrics", "InvalidMagicNumberRecordsPerSec, NoKeyCompactedTopicRecordsPerSec",
     "counted with the other errors: kafka_network_requestmetrics_errors_total"),
    ("kafka.server:BrokerTopicMetrics", "Remote*", "tiered storage is not served yet"),
    ("kafka.server:ControllerMutation", "", _NOT_MEASURED),
    ("kafka.server:Produce", "", _NOT_MEASURED),
    ("kafka.server:Fetch", "", _NOT_MEASURED),
    ("kafka.server:Request", "", _NOT_MEASURED),
    ("kafka.server:ControllerServer", "", "yammer-metrics-count and linux-disk-* describe a Java process"),
    ("kafka.server:KafkaServer", "ClusterId, linux-disk-*, yammer-metrics-count",
     "ClusterId is a text; the others describe a Java process"),
    ("kafka.server:DelayedFetchMetrics", "", _NOT_MEASURED),
    ("kafka.server:DelayedProduceMetrics", "", _NOT_MEASURED),
    ("kafka.server:ForwardingManager", "", _NOT_MEASURED),
    ("kafka.server:MetadataLoader", "AvgIdleRatio", _ONE_LOOP),
    ("kafka.server:MetadataLoader", "HandleLoadSnapshotCount", _NOT_MEASURED),
    ("kafka.server:SnapshotEmitter", "", _NOT_MEASURED),
    ("kafka.server:ReplicaAlterLogDirsManager", "", _NOT_MEASURED),
    ("kafka.server:ReplicaFetcherManager", "DeadThreadCount, FailedPartitionsCount, MinFetchRate",
     "a fetcher is no thread, and tries again what fails"),
    ("kafka.server:ShareGroupMetrics", "", _NO_SHARES),
    ("kafka.server:ShareSessionCache", "", _NO_SHARES),
    ("kafka.server:share-coordinator-metrics", "", _NO_SHARES),
    ("kafka.server:Persister-channel-metrics", "", _NO_SHARES),
    ("kafka.server:ShareGroupDLQManager-channel-metrics", "", _NO_SHARES),
    ("kafka.server:alter-partition-metrics", "", _NOT_MEASURED),
    ("kafka.server:directory-assignments-metrics", "", _NOT_MEASURED),
    ("kafka.server:forwarding-metrics", "", _NOT_MEASURED),
    ("kafka.server:heartbeat-metrics", "", _NOT_MEASURED),
    ("kafka.server:raft-channel-metrics", "", _NOT_MEASURED),
    ("kafka.server:registration-metrics", "", _NOT_MEASURED),
    ("kafka.server:app-info", "commit-id, CommitId", "a Python package has a version only, in kafka_server_app_info"),
    ("kafka.server:broker-metadata-metrics", "", "see kafka_controller_kafkacontroller_lastappliedrecordoffset"),
    ("kafka.server:client-metrics", "", "client telemetry (KIP-714) is not served"),
    ("kafka.server:group-coordinator-metrics", "event-queue-*, event-purgatory-*, background-*, batch-*, *-time-ms-*",
     _IN_PLACE),
    ("kafka.server:group-coordinator-metrics", "*-rate", "Prometheus computes rates from the counts"),
    ("kafka.server:group-coordinator-metrics", "consumer-group-*, share-group-*, streams-group-*",
     "only classic groups are served yet"),
    ("kafka.server:kafka-metrics-count", "", "a count of Kafka's Java metrics library"),
    ("kafka.server:node-metrics", "", "kafka_server_metadataloader_finalizedlevel has the levels"),
    ("kafka.server:raft-metrics", "append-records-rate, fetch-records-rate, commit-latency-*, election-latency-*, "
     "poll-idle-ratio-avg", _NOT_MEASURED),
    ("kafka.server:raft-metrics", "number-unknown-voter-connections, uncommitted-voter-change, "
     "current-vote-directory-id", _NOT_MEASURED),
    ("kafka.server:socket-server-metrics", "rates, sizes and times of each connection",
     "only the number of connections and of all connections so far are exported"),
    ("kafka.utils:Throttler", "", "the cleaner's bandwidth is not counted"),
    ("java.lang", "", "there is no JVM; see python_gc_* and process_*"),
    ("kafka_connect_*", "", "Kafka Connect is not served yet"),
    ("redpanda_rpc_*, redpanda_kafka_request_latency_seconds, redpanda_kafka_handler_latency_seconds", "",
     "see kafka_network_requestmetrics_*"),
)  # fmt: skip
