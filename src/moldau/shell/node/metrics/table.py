"""Every metric of `/metrics`: name, kind, labels, meaning, and where its value comes from. One row a metric.

Names follow the rule that JMX exporters use for Apache Kafka: `kafka.<package>:type=T,name=NPerSec` becomes
`kafka_<package>_<t>_<n>_total`. A name is in this table only if its value is true on this node; `absent.py`
has Kafka's other metrics with the reasons. docs/reference/metrics.md is made from both.
"""

from __future__ import annotations

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.groups.counters import OFFSET_COMMITS, OFFSET_DELETIONS, OFFSET_EXPIRATIONS, REBALANCES
from moldau.shell.broker.logs.cleaner import (
    BUFFER_PERCENT,
    CLEAN_TIME,
    COMPACTION_DELAY,
    MAX_DIRTY_PERCENT,
    RECOPY_PERCENT,
    UNCLEANABLE_COUNT,
)
from moldau.shell.broker.replicas.isr_proposals import FAILED_ISR_UPDATES, ISR_EXPANDS, ISR_SHRINKS
from moldau.shell.broker.traffic import (
    REASSIGNMENT_BYTES_IN,
    REASSIGNMENT_BYTES_OUT,
    REPLICATION_BYTES_IN,
    REPLICATION_BYTES_OUT,
)
from moldau.shell.network.authenticating import (
    EXPIRED,
    FAILED_REAUTHENTICATIONS,
    FAILURES,
    REAUTHENTICATIONS,
    SUCCESSES,
)
from moldau.shell.node.metrics.security import LISTENER_ROWS
from moldau.transport.exposition import Metric

COUNTER, GAUGE, SUMMARY = "counter", "gauge", "summary"

_PARTITION = ("topic", "partition")

_Row = tuple[str, str, tuple[str, ...], str, str]
"""(name, kind, labels, help, source)"""

# fmt: off
_TRAFFIC = (
    ("bytesin", ("topic",), "Bytes of record batches appended", "Partition.appended_bytes"),
    ("bytesout", ("topic",), "Bytes of record batches sent to consumers", "Partition.fetched_bytes"),
    ("messagesin", ("topic",), "Records appended, by their offsets", "Partition.appended_records"),
    ("totalproducerequests", ("topic",), "Appends, one for each partition of each request",
     "Partition.produce_requests and those that failed"),
    ("totalfetchrequests", ("topic",), "Looks at a partition for a fetch", "Partition.fetch_requests"),
    ("failedproducerequests", (), "Partitions of produce requests answered with an error",
     "Telemetry, produce handler"),
    ("failedfetchrequests", (), "Partitions of fetch requests answered with an error", "Telemetry, fetch handler"),
    ("bytesrejected", (), "Bytes of batches refused as too large", "Telemetry, produce handler"),
    ("invalidmessagecrcrecords", (), "Batches answered with CORRUPT_MESSAGE", "Telemetry, produce handler"),
    ("invalidoffsetorsequencerecords", (), "Batches answered with OUT_OF_ORDER_SEQUENCE_NUMBER",
     "Telemetry, produce handler"),
    ("replicationbytesin", (), "Bytes of record batches that followers here were sent", "Telemetry, Replication"),
    ("replicationbytesout", (), "Bytes of record batches sent to followers", "Telemetry, fetch handler"),
    ("reassignmentbytesin", (), "Of these, to replicas that a reassignment adds here", "Telemetry, Replication"),
    ("reassignmentbytesout", (), "Of these, to replicas that a reassignment adds", "Telemetry, fetch handler"),
    ("producemessageconversions", (), "0: only record batches of magic 2 are taken", "never converted"),
    ("fetchmessageconversions", (), "0: only record batches of magic 2 are stored", "never converted"),
)

_REPLICAS = (
    ("partitioncount", GAUGE, "Partitions on this broker", "Partitions"),
    ("leadercount", GAUGE, "Partitions that this broker leads", "metadata image"),
    ("offlinereplicacount", GAUGE, "Partitions whose log failed", "Partition.is_offline"),
    ("underreplicatedpartitions", GAUGE,
     "Led partitions with fewer in-sync replicas than replicas (a reassignment's new ones not counted)",
     "metadata image"),
    ("underminisrpartitioncount", GAUGE, "Led partitions with fewer in-sync replicas than min.insync.replicas",
     "metadata image, topic settings"),
    ("atminisrpartitioncount", GAUGE, "Led partitions with as many in-sync replicas as min.insync.replicas",
     "metadata image, topic settings"),
    ("reassigningpartitions", GAUGE, "Led partitions being reassigned", "metadata image"),
    ("produceridcount", GAUGE, "Idempotent producers remembered", "Log.producer_state"),
    ("partitionswithlatetransactionscount", GAUGE,
     "Partitions whose oldest open transaction has been idle for 5 minutes more than transaction.max.timeout.ms",
     "Log.producer_state"),
    ("isrshrinks_total", COUNTER, "Replicas taken out of the in-sync ones by leaders here", "Telemetry, IsrProposals"),
    ("isrexpands_total", COUNTER, "Replicas taken back into them", "Telemetry, IsrProposals"),
    ("failedisrupdates_total", COUNTER, "Such changes that the controller refused or did not answer",
     "Telemetry, IsrProposals"),
)

_PER_PARTITION = (
    ("kafka_cluster_partition_underreplicated",
     "1 with fewer in-sync replicas than replicas (a reassignment's new ones not counted)",
     "metadata image"),
    ("kafka_cluster_partition_underminisr", "1 with fewer in-sync replicas than min.insync.replicas",
     "metadata image, topic settings"),
    ("kafka_cluster_partition_atminisr", "1 with as many in-sync replicas as min.insync.replicas",
     "metadata image, topic settings"),
    ("kafka_cluster_partition_insyncreplicascount", "In-sync replicas", "metadata image"),
    ("kafka_cluster_partition_replicascount", "Replicas", "metadata image"),
    ("kafka_cluster_partition_laststableoffsetlag", "High watermark minus last stable offset", "Partition"),
    ("kafka_log_log_size", "Bytes of the log", "Log.size_bytes"),
    ("kafka_log_log_logendoffset", "The offset of the next record", "Log.log_end_offset"),
    ("kafka_log_log_logstartoffset", "The first offset", "Log.log_start_offset"),
    ("kafka_log_log_numlogsegments", "Segments", "Log"),
    ("kafka_log_log_retentionsizeinpercent", "Size of the log, of retention.bytes; 0 without that bound",
     "Log.size_bytes, topic settings"),
    ("kafka_topic_partition_current_offset", "The high watermark (kafka_exporter's name)", "Partition.high_watermark"),
    ("kafka_topic_partition_oldest_offset", "The first offset (kafka_exporter's name)", "Log.log_start_offset"),
    ("kafka_topic_partition_leader", "Broker id of the leader (kafka_exporter's name)", "metadata image"),
    ("kafka_topic_partition_leader_is_preferred", "1 if the leader is the first replica (kafka_exporter's name)",
     "metadata image"),
    ("kafka_topic_partition_replicas", "Replicas (kafka_exporter's name)", "metadata image"),
    ("kafka_topic_partition_in_sync_replica", "In-sync replicas (kafka_exporter's name)", "metadata image"),
    ("kafka_topic_partition_under_replicated_partition", "1 with fewer in-sync replicas than replicas "
     "(a reassignment's new ones not counted; kafka_exporter's name)", "metadata image"),
)

_REQUESTS = (
    ("totaltimems", "Milliseconds from the handler's begin to the answer"),
    ("localtimems", "Milliseconds in the handler's synchronous part, while no other request is served"),
    ("remotetimems", "Milliseconds parked: long polls, waits for the disk, joins of groups"),
    ("requestbytes", "Bytes of a request with its length"),
)

_CONTROLLER = (
    ("activecontrollercount", "1 while the controller of this node is active", "QuorumRole"),
    ("activebrokercount", "Registered brokers that are not fenced", "metadata image"),
    ("fencedbrokercount", "Registered brokers that are fenced", "metadata image"),
    ("controlledshutdownbrokercount", "Brokers that are shutting down", "metadata image"),
    ("globaltopiccount", "Topics", "metadata image"),
    ("globalpartitioncount", "Partitions", "metadata image"),
    ("offlinepartitionscount", "Partitions without a leader", "metadata image"),
    ("preferredreplicaimbalancecount", "Partitions whose leader is not the first replica", "metadata image"),
    ("lastappliedrecordoffset", "The last metadata record that this node acts on", "metadata image"),
    ("lastcommittedrecordoffset", "The last metadata record that is flushed", "QuorumRole.high_watermark"),
    ("newactivecontrollerscount", "Leader epochs that this node has opened", "QuorumRole"),
    ("metadataerrorcount", "0: a metadata record that cannot be applied stops the node", "QuorumRole"),
)

_RAFT = (
    ("current_leader", "Node id of the leader", "QuorumRole"),
    ("current_epoch", "Leader epoch", "QuorumRole.leader_epoch"),
    ("current_vote", "This node's id while it leads, else -1", "QuorumRole"),
    ("high_watermark", "Metadata records that are flushed", "QuorumRole.high_watermark"),
    ("log_end_offset", "End of the metadata log", "QuorumRole.log"),
    ("log_end_epoch", "Leader epoch of the end of the metadata log", "QuorumRole.log"),
    ("number_of_voters", "Voters", "QuorumRole"),
    ("number_of_observers", "Observers, as the leader knows them", "QuorumRole"),
)

_CLEANER = (
    ("logcleaner_max_clean_time_secs", "Seconds that the last round took", CLEAN_TIME),
    ("logcleaner_max_compaction_delay_secs", "Seconds by which the oldest due log is late", COMPACTION_DELAY),
    ("logcleaner_max_buffer_utilization_percent", "Percent of the key memory, last round", BUFFER_PERCENT),
    ("logcleaner_cleaner_recopy_percent", "Percent of bytes kept, last round", RECOPY_PERCENT),
    ("logcleanermanager_max_dirty_percent", "Dirty bytes of the dirtiest compacted log", MAX_DIRTY_PERCENT),
    ("logcleanermanager_uncleanable_partitions_count", "Compacted logs that cannot be cleaned", UNCLEANABLE_COUNT),
)
"""(name, meaning, the cleaner's name)"""

_COORDINATOR = (
    ("offset_commit_count", "Offsets committed", OFFSET_COMMITS),
    ("offset_expiration_count", "Offsets that expired", OFFSET_EXPIRATIONS),
    ("offset_deletion_count", "Offsets deleted", OFFSET_DELETIONS),
    ("group_completed_rebalance_count", "Rebalances of classic groups", REBALANCES),
)

_REPLICATION = {
    "brokertopicmetrics_replicationbytesin": REPLICATION_BYTES_IN,
    "brokertopicmetrics_replicationbytesout": REPLICATION_BYTES_OUT,
    "brokertopicmetrics_reassignmentbytesin": REASSIGNMENT_BYTES_IN,
    "brokertopicmetrics_reassignmentbytesout": REASSIGNMENT_BYTES_OUT,
    "replicamanager_isrshrinks": ISR_SHRINKS,
    "replicamanager_isrexpands": ISR_EXPANDS,
    "replicamanager_failedisrupdates": FAILED_ISR_UPDATES,
}

_AUTHENTICATION = (
    ("successful_authentication_total", "Clients that logged in (SASL)", SUCCESSES),
    ("failed_authentication_total", "Logins that were refused (SASL)", FAILURES),
    ("successful_reauthentication_total", "Clients that logged in again before their session ended (KIP-368)",
     REAUTHENTICATIONS),
    ("failed_reauthentication_total", "Further logins that were refused", FAILED_REAUTHENTICATIONS),
    ("expired_connections_killed_count", "Connections closed because their session had ended", EXPIRED),
)

FROM_TELEMETRY = (
    {f"kafka_log_{name}": key for name, _, key in _CLEANER}
    | {f"kafka_server_group_coordinator_metrics_{name}": key for name, _, key in _COORDINATOR}
    | {f"kafka_server_{name}_total": key for name, key in _REPLICATION.items()}
)
"""Metrics that telemetry has under their JMX name."""

AUTHENTICATION = {f"kafka_server_socket_server_metrics_{name}": key for name, _, key in _AUTHENTICATION}
"""Such metrics, by listener."""

GROUP_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")

_OTHER_BOUNDS = {
    "moldau_fetch_sessions": "Fetch sessions kept",
    "moldau_listed_partitions": "Partitions that are listed one by one here",
    "moldau_unauthenticated_memory_bytes": "Bytes of requests that are arriving, of clients that are not authenticated",
}
"""Bounds whose metric is not named after a setting."""

_NODE_ROWS: tuple[_Row, ...] = (
    ("kafka_server_kafkaserver_brokerstate", GAUGE, (),
     "0 not running, 1 starting, 2 recovering, 3 running, 6 shutting down", "Node"),
    ("kafka_server_app_info", GAUGE, ("version", "start_time_ms"), "1", "moldau.__version__"),
)

_DIRECTORY_ROWS: tuple[_Row, ...] = (
    ("kafka_log_logmanager_offlinelogdirectorycount", GAUGE, (), "Log directories that failed", "DirectoryHealth"),
    ("kafka_log_logmanager_cordonedlogdirectorycount", GAUGE, (), "Directories of cordoned.log.dirs",
     "LogDirectories"),
    ("kafka_log_logmanager_logdirectorycordoned", GAUGE, ("logDirectory",), "1 if it takes no new partitions",
     "LogDirectories"),
    ("kafka_log_logmanager_logdirectoryoffline", GAUGE, ("logDirectory",), "1 if the directory failed",
     "DirectoryHealth"),
    ("moldau_log_directory_full", GAUGE, ("logDirectory",),
     "1 if it takes no records until there is room: other brokers lead. Not of a broker alone", "DirectoryHealth"),
    ("kafka_network_requestmetrics_requests_total", COUNTER, ("request", "version"),
     "Requests; FetchConsumer and FetchFollower: the fetches of each", "RequestStats"),
    ("kafka_network_requestmetrics_errors_total", COUNTER, ("request", "error"),
     "Error codes in answers; NONE counts too", "RequestStats; Produce and Fetch: by partition"),
)

_NETWORK_ROWS: tuple[_Row, ...] = (
    ("kafka_network_socketserver_memorypoolused", GAUGE, (), "Bytes of requests that are arriving", "RequestMemory"),
    ("kafka_network_socketserver_memorypoolavailable", GAUGE, (), "Bytes that requests may still take",
     "RequestMemory"),
    ("kafka_network_socketserver_expiredconnectionskilledcount", COUNTER, (), "Connections closed as idle",
     "Telemetry"),
    ("kafka_server_socket_server_metrics_connection_count", GAUGE, ("listener", "networkProcessor"),
     "Connections", "ConnectionGroup"),
    ("kafka_server_socket_server_metrics_connections", GAUGE,
     ("clientSoftwareName", "clientSoftwareVersion", "listener", "networkProcessor"),
     "Connections by the client's software, as ApiVersions names it; at most 100 kinds", "ServerConnection.software"),
    ("kafka_server_socket_server_metrics_connection_creation_total", COUNTER, (), "Connections accepted",
     "ConnectionGroup"),
    *(
        (f"kafka_server_socket_server_metrics_{name}", COUNTER, ("listener", "networkProcessor"), meaning,
         "Telemetry, SaslAuthenticator")
        for name, meaning, _ in _AUTHENTICATION
    ),
    ("kafka_server_delayedoperationpurgatory_purgatorysize", GAUGE, ("delayedOperation",),
     "Requests that wait: Fetch for records", "Fetches.parked"),
    ("kafka_server_delayedoperationpurgatory_numdelayedoperations", GAUGE, ("delayedOperation",),
     "Requests that wait: Fetch for records", "Fetches.parked"),
    ("kafka_server_fetchsessioncache_numincrementalfetchsessions", GAUGE, (), "Fetch sessions kept",
     "FetchSessions"),
    ("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", GAUGE, (),
     "Partitions in fetch sessions", "FetchSessions"),
    ("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", COUNTER, (),
     "Fetch sessions that made room for others", "FetchSessions"),
)

_QUORUM_ROWS: tuple[_Row, ...] = (
    ("kafka_controller_kafkacontroller_brokerregistrationstate", GAUGE, ("broker",),
     "10 fenced, 20 shutting down, 30 active", "metadata image"),
    ("kafka_controller_controllerstats_uncleanleaderelections_total", COUNTER, (),
     "Leaders elected that may lack acknowledged records, by the controller of this node", "ControllerMachine"),
    ("kafka_server_replicafetchermanager_maxlag", GAUGE, ("clientId",),
     "Records that the follower here which is furthest behind lacks", "Follower.lag"),
    ("kafka_server_raftmetrics_current_state", GAUGE, ("current_state",), "1", "QuorumRole"),
)

_FEATURE_ROWS: tuple[_Row, ...] = (
    ("kafka_server_metadataloader_currentmetadataversion", GAUGE, (), "Level of metadata.version",
     "metadata image"),
    ("kafka_server_metadataloader_currentcontrollerid", GAUGE, (), "Node id of the controller", "QuorumRole"),
    ("kafka_server_metadataloader_finalizedlevel", GAUGE, ("featureName",), "Level in force", "metadata image"),
    ("kafka_coordinator_group_groupmetadatamanager_numgroups", GAUGE, (), "Consumer groups", "GroupsState"),
    ("kafka_coordinator_group_groupmetadatamanager_numoffsets", GAUGE, (), "Committed offsets", "GroupsState"),
)

_TRANSACTION_ROWS: tuple[_Row, ...] = (
    ("kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize", GAUGE, (),
     "Transactions with a partition that cannot take its marker now", "Markers"),
    ("kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize", GAUGE, (),
     "Transactions whose markers are written, and whose end cannot be noted now", "Markers"),
    ("kafka_server_addpartitionstotxnmanager_verificationfailurerate_count", COUNTER, (),
     "Partitions of which a coordinator told a leader here that they are not in the transaction", "Verifications"),
    ("kafka_server_addpartitionstotxnmanager_verificationtimems", SUMMARY, ("quantile",),
     "Milliseconds until the coordinator has answered a leader here", "Verifications"),
    *((f"kafka_server_{kind}_coordinator_metrics_partition_load_time_{name}", GAUGE, (),
       f"Milliseconds until a coordinator of {contents} served, {text} of those loaded in the last minute; NaN: none",
       "LoadTimes")
      for kind, contents in (("transaction", "transactions"), ("group", "groups"))
      for name, text in (("avg", "the average"), ("max", "the longest"))),
    ("moldau_transactional_ids", GAUGE, ("state",), "Transactional ids by state", "TransactionsState"),
    ("moldau_transactional_ids_per_coordinator_limit", GAUGE, (),
     "Limit of transactional ids in one coordinator partition", "settings"),
    ("moldau_transaction_oldest_open_seconds", GAUGE, (), "Seconds since the oldest open transaction began; 0: none",
     "TransactionsState"),
    ("moldau_transaction_marker_retries_total", COUNTER, (), "How often markers of a transaction were tried again",
     "Markers"),
)

_GROUP_ROWS: tuple[_Row, ...] = (
    ("kafka_server_group_coordinator_metrics_group_count", GAUGE, ("protocol",), "Groups by protocol",
     "GroupsState"),
    ("kafka_server_group_coordinator_metrics_classic_group_count", GAUGE, ("state",), "Classic groups by state",
     "GroupsState"),
    ("kafka_server_group_coordinator_metrics_offset_count", GAUGE, (), "Committed offsets", "GroupsState"),
    ("kafka_brokers", GAUGE, (), "Brokers (kafka_exporter's name)", "metadata image"),
    ("kafka_broker_info", GAUGE, ("address", "id"), "1 (kafka_exporter's name)", "metadata image"),
    ("kafka_topic_partitions", GAUGE, ("topic",), "Partitions of a topic (kafka_exporter's name)",
     "metadata image"),
    ("kafka_consumergroup_current_offset", GAUGE, ("consumergroup", *_PARTITION), "Committed offset",
     "GroupsState"),
    ("kafka_consumergroup_current_offset_sum", GAUGE, ("consumergroup", "topic"), "Sum of committed offsets",
     "GroupsState"),
    ("kafka_consumergroup_lag", GAUGE, ("consumergroup", *_PARTITION),
     "High watermark minus committed offset, where this broker has an in-sync replica of the partition",
     "GroupsState, Partition"),
    ("kafka_consumergroup_lag_sum", GAUGE, ("consumergroup", "topic"), "Sum of the lag, where this broker has an "
     "in-sync replica of each partition with a committed offset", "GroupsState, Partition"),
    ("kafka_consumergroup_members", GAUGE, ("consumergroup",), "Members", "GroupsState"),
    ("process_open_fds", GAUGE, (), "Open descriptors", "/proc"),
    ("process_max_fds", GAUGE, (), "Limit of open descriptors", "getrlimit"),
    ("process_resident_memory_bytes", GAUGE, (), "Resident memory", "/proc"),
    ("process_virtual_memory_bytes", GAUGE, (), "Virtual memory", "/proc"),
    ("process_cpu_seconds_total", COUNTER, (), "CPU time", "os.times"),
    ("process_start_time_seconds", GAUGE, (), "When the process started, since the epoch", "/proc"),
    ("process_threads", GAUGE, (), "Threads", "threading"),
    ("python_gc_collections_total", COUNTER, ("generation",), "Garbage collections", "gc"),
    ("python_gc_objects_collected_total", COUNTER, ("generation",), "Objects collected", "gc"),
    ("python_gc_objects_uncollectable_total", COUNTER, ("generation",), "Objects that cannot be collected", "gc"),
)

_OWN_ROWS: tuple[_Row, ...] = (
    ("moldau_bound_reached_total", COUNTER, ("setting",), "How often that limit delayed or refused work",
     "Telemetry"),
    ("moldau_throttled_answers_total", COUNTER, ("quota",), "Responses with a throttle time, by quota",
     "BrokerQuotas.throttled"),
    ("moldau_request_refused_total", COUNTER, ("key",), "Requests of a key or version that is not served",
     "Telemetry"),
    ("moldau_unforeseen_errors_total", COUNTER, ("request",), "Requests that failed because of a fault in the broker",
     "Telemetry"),
    ("moldau_loop_late_seconds_bucket", COUNTER, ("le",), "Ticks of the event loop, counted by how late they came",
     "LoopWatch: a tick every 0.5 s"),
    ("moldau_loop_late_seconds_sum", COUNTER, (), "Sum of all delays of the ticks", "LoopWatch"),
    ("moldau_loop_late_seconds_count", COUNTER, (), "Ticks", "LoopWatch"),
    ("moldau_loop_late_seconds_max", GAUGE, (), "The latest tick of the last one to two minutes", "LoopWatch"),
    ("moldau_producer_ids_per_partition_limit", GAUGE, (), "Limit of producers in one partition", "settings"),
    ("moldau_groups_per_coordinator_limit", GAUGE, (), "Limit of groups in one coordinator partition", "settings"),
    ("moldau_group_bytes_limit", GAUGE, (), "Limit of the bytes that the members of one group hold", "settings"),
    ("moldau_group_member_bytes_limit", GAUGE, (), "Limit of the bytes that one member of a group holds", "settings"),
    ("moldau_scrape_seconds", GAUGE, (), "Seconds that the previous scrape took, pauses included",
     "this endpoint"),
    ("redpanda_cluster_brokers", GAUGE, (), "Brokers", "metadata image"),
    ("redpanda_cluster_topics", GAUGE, (), "Topics", "metadata image"),
    ("redpanda_cluster_partitions", GAUGE, (), "Partitions", "metadata image"),
    ("redpanda_cluster_unavailable_partitions", GAUGE, (), "Partitions without a leader", "metadata image"),
    ("redpanda_kafka_max_offset", GAUGE, ("redpanda_namespace", "redpanda_topic", "redpanda_partition"),
     "The high watermark", "Partition.high_watermark"),
    ("redpanda_kafka_request_bytes_total", COUNTER, ("redpanda_namespace", "redpanda_request"),
     "Bytes produced and consumed", "Partition"),
    ("redpanda_kafka_records_produced_total", COUNTER, ("redpanda_namespace",), "Records appended", "Partition"),
    ("redpanda_kafka_consumer_group_consumers", GAUGE, ("redpanda_group",), "Members", "GroupsState"),
    ("redpanda_kafka_consumer_group_lag_sum", GAUGE, ("redpanda_group",),
     "Sum of the lag, where all of it is known here",
     "GroupsState, Partition"),
    ("redpanda_kafka_consumer_group_lag_max", GAUGE, ("redpanda_group",),
     "Largest lag of a partition, where all are known here",
     "GroupsState, Partition"),
    ("redpanda_storage_disk_total_bytes", GAUGE, (), "Size of the log directory's file system", "statvfs"),
    ("redpanda_storage_disk_free_bytes", GAUGE, (), "Free space of the log directory's file system", "statvfs"),
    ("redpanda_uptime_seconds_total", GAUGE, (), "Seconds since the process started", "/proc"),
)


def _rows() -> list[_Row]:
    rows: list[_Row] = list(_NODE_ROWS)
    for name, labels, text, source in _TRAFFIC:
        rows.append((f"kafka_server_brokertopicmetrics_{name}_total", COUNTER, labels, text, source))
    for name, kind, text, source in _REPLICAS:
        rows.append((f"kafka_server_replicamanager_{name}", kind, (), text, source))
    for name, text, source in _PER_PARTITION:
        rows.append((name, GAUGE, _PARTITION, text, source))
    rows += _DIRECTORY_ROWS
    for name, text in _REQUESTS:
        rows.append((f"kafka_network_requestmetrics_{name}", SUMMARY, ("request", "quantile"), text,
                     "RequestStats, one request in 32 after the first 64"))
    rows += (*_NETWORK_ROWS, *LISTENER_ROWS)
    for name, text, source in _CONTROLLER:
        rows.append((f"kafka_controller_kafkacontroller_{name}", GAUGE, (), text, source))
    rows += _QUORUM_ROWS
    for name, text, source in _RAFT:
        rows.append((f"kafka_server_raftmetrics_{name}", GAUGE, (), text, source))
    rows += _FEATURE_ROWS
    for state in GROUP_STATES:
        rows.append((f"kafka_coordinator_group_groupmetadatamanager_numgroups{state.lower()}", GAUGE, (),
                     f"Groups in the state {state}", "GroupsState"))
    for name, text, _ in _CLEANER:
        rows.append((f"kafka_log_{name}", GAUGE, (), text, "Cleaner, through Telemetry"))
    for name, text, _ in _COORDINATOR:
        rows.append((f"kafka_server_group_coordinator_metrics_{name}", COUNTER, (), text,
                     "GroupShard, through Telemetry"))
    rows += _GROUP_ROWS
    rows += _TRANSACTION_ROWS
    for name, text in (BrokerSettings.bounds() | _OTHER_BOUNDS).items():
        rows.append((name, GAUGE, (), text, "Telemetry.held"))
        rows.append((f"{name}_limit", GAUGE, (), f"The bound of {name}", "settings"))
    rows += _OWN_ROWS
    return rows
# fmt: on


TABLE: tuple[Metric, ...] = tuple(Metric(*row) for row in _rows())
