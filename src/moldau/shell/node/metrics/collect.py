"""One scrape: reads the values of the table from a running node, with pauses, so that no client waits for it."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau import __version__
from moldau.core.controller.configs import min_insync_replicas_of_leader
from moldau.core.raft.messages import NOBODY
from moldau.core.replication.follower import Follower
from moldau.errors import kafka_error
from moldau.shell.broker.traffic import (
    BYTES_REJECTED,
    FAILED_FETCH_REQUESTS,
    FAILED_PRODUCE_REQUESTS,
    FETCH_ERRORS,
    INVALID_MESSAGE_CRC_RECORDS,
    INVALID_SEQUENCE_RECORDS,
    PRODUCE_ERRORS,
    Traffic,
)
from moldau.shell.io.process_stats import disk_space, process_stats
from moldau.shell.network.server_connection import EXPIRED_CONNECTIONS
from moldau.shell.node.loop_watch import BOUNDS_S
from moldau.shell.node.metrics.groups import add_groups
from moldau.shell.node.metrics.security import add_security
from moldau.shell.node.metrics.table import AUTHENTICATION, FROM_TELEMETRY, TABLE
from moldau.shell.node.metrics.transactions import add_transactions
from moldau.telemetry import BOUND_REACHED
from moldau.transport.exposition import Samples, labels_text
from moldau.wire.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from moldau.core.metadata.image import MetadataImage, PartitionImage, TopicImage
    from moldau.core.replication.partition import Partition
    from moldau.shell.broker.role import Broker
    from moldau.shell.network.dispatch import Dispatcher
    from moldau.shell.network.pauses import Pauses
    from moldau.shell.network.request_stats import RequestStats
    from moldau.shell.node.status import NodeStatus
    from moldau.shell.quorum.role import QuorumRole

MAX_CLIENT_KINDS = 100
LATE_TRANSACTION_MS = 300_000
"""A transaction counts as late this long after the longest time-out, as in Kafka."""

_TRAFFIC = "kafka_server_brokertopicmetrics_"
_ALWAYS_ZERO = (
    f"{_TRAFFIC}producemessageconversions_total",
    f"{_TRAFFIC}fetchmessageconversions_total",
    "kafka_controller_kafkacontroller_metadataerrorcount",
)
"""Always zero on this node, for the reasons in the table."""


async def collect(node: NodeStatus) -> bytes:
    """All metrics as text. Parts that do not exist yet, while the node starts, are left out."""
    out = Samples(TABLE)
    add_process(node, out)
    broker, quorum = node.broker, node.quorum
    add_network(node, out)
    add_security(node, out)
    if node.dispatcher is not None:
        add_requests(node.dispatcher, out)
    if quorum is not None:
        await add_controller(quorum.image if broker is None else broker.image, quorum, out)
    if broker is not None:
        await _Partitions(node, broker, out).add()
        await add_groups(broker, out)
        await add_transactions(broker, out)
        for name in _ALWAYS_ZERO:
            out.add(name, 0)
        for name, key in FROM_TELEMETRY.items():
            out.add(name, node.telemetry.value(key))
        await broker.own_node.pauses.pause_long()
    return out.render()


def add_process(node: NodeStatus, out: Samples) -> None:
    """Adds the process: memory, CPU, descriptors, version and uptime."""
    out.add("kafka_server_kafkaserver_brokerstate", node.state)
    stats = process_stats()
    for name, value in stats.items():
        out.add(name, value)
    started_s = stats.get("process_start_time_seconds")
    if started_s is not None:
        labels = labels_text(version=__version__, start_time_ms=int(started_s * 1000))
        out.add("kafka_server_app_info", 1, labels)
        out.add("redpanda_uptime_seconds_total", node.clock.now_ms() / 1000 - started_s)
    for generation, counts in enumerate(gc.get_stats()):
        labels = labels_text(generation=generation)
        out.add("python_gc_collections_total", counts["collections"], labels)
        out.add("python_gc_objects_collected_total", counts["collected"], labels)
        out.add("python_gc_objects_uncollectable_total", counts["uncollectable"], labels)
    telemetry = node.telemetry
    for (name, label), count in list(telemetry.counters.items()):
        if name == BOUND_REACHED:
            out.add("moldau_bound_reached_total", count, labels_text(setting=label))
        elif name == "kafka.server:type=RequestRefused":
            out.add("moldau_request_refused_total", count, labels_text(key=label))
        elif name == "moldau.server:type=UnforeseenErrors":
            out.add("moldau_unforeseen_errors_total", count, labels_text(request=label))
    for bound, held in telemetry.held.items():
        _bound(out, bound, *held())
    out.add("moldau_scrape_seconds", node.last_scrape_s)
    watch = node.watch
    total = 0
    for bound_s, count in zip((*BOUNDS_S, "+Inf"), watch.counts, strict=True):
        total += count
        out.add("moldau_loop_late_seconds_bucket", total, labels_text(le=bound_s))
    out.add("moldau_loop_late_seconds_sum", watch.sum_s)
    out.add("moldau_loop_late_seconds_count", total)
    out.add("moldau_loop_late_seconds_max", watch.max_s)


def _bound(out: Samples, name: str, value: int, limit: int) -> None:
    out.add(name, value)
    out.add(f"{name}_limit", limit)


def add_network(node: NodeStatus, out: Samples) -> None:
    """Adds connections, and the memory of requests and answers."""
    group = node.group
    memory = group.request_memory
    out.add("kafka_network_socketserver_memorypoolused", memory.used_bytes)
    out.add("kafka_network_socketserver_memorypoolavailable", max(0, memory.limit_bytes - memory.used_bytes))
    expired = node.telemetry.value(EXPIRED_CONNECTIONS)
    out.add("kafka_network_socketserver_expiredconnectionskilledcount", expired)
    out.add("kafka_server_socket_server_metrics_connection_creation_total", group.accepted)
    counts: dict[str, int] = {}
    kinds: dict[tuple[str, str], int] = {}
    for connection in group.connections.values():
        listener = connection.listener_name
        counts[listener] = counts.get(listener, 0) + 1
        kind = (connection.software, listener)
        if kind not in kinds and len(kinds) >= MAX_CLIENT_KINDS:
            kind = ("(other)", listener)
        kinds[kind] = kinds.get(kind, 0) + 1
    for listener, count in counts.items():
        labels = labels_text(listener=listener, networkProcessor=0)
        out.add("kafka_server_socket_server_metrics_connection_count", count, labels)
    for metric, key in AUTHENTICATION.items():
        for listener, count in node.telemetry.labels_of(key):
            out.add(metric, count, labels_text(listener=listener, networkProcessor=0))
    for (software, listener), count in kinds.items():
        name, _, version = software.partition(" ")
        labels = labels_text(
            clientSoftwareName=name or "unknown",
            clientSoftwareVersion=version or "unknown",
            listener=listener,
            networkProcessor=0,
        )
        out.add("kafka_server_socket_server_metrics_connections", count, labels)


def add_requests(dispatcher: Dispatcher, out: Samples) -> None:
    """Adds requests by API and version, with their errors and times."""
    for key, stats in dispatcher.request_stats().items():
        request = "".join(word.title() for word in ApiKey(key).name.split("_"))
        _add_request(out, request, stats)
        for code, count in stats.errors.items():
            labels = labels_text(request=request, error=name_of_code(code))
            out.add("kafka_network_requestmetrics_errors_total", count, labels)
    for request, stats in zip(("FetchConsumer", "FetchFollower"), dispatcher.fetch_stats(), strict=True):
        _add_request(out, request, stats)


def _add_request(out: Samples, request: str, stats: RequestStats) -> None:
    """Adds nothing if no request came."""
    if not stats.count:
        return
    for version, count in enumerate(stats.by_version):
        if count:
            labels = labels_text(request=request, version=version)
            out.add("kafka_network_requestmetrics_requests_total", count, labels)
    labels = labels_text(request=request)
    add = out.add_summary
    count = stats.count
    add("kafka_network_requestmetrics_totaltimems", stats.total.quantiles(1000), count, labels)
    add("kafka_network_requestmetrics_localtimems", stats.local.quantiles(1000), count, labels)
    add("kafka_network_requestmetrics_remotetimems", stats.waited.quantiles(1000), count, labels)
    add("kafka_network_requestmetrics_requestbytes", stats.request_bytes.quantiles(), count, labels)


def name_of_code(code: int) -> str:
    """The name of an error code, as in Kafka's metrics."""
    return "NONE" if code == 0 else kafka_error(code).name


def is_under_replicated(image: PartitionImage) -> bool:
    """Whether a partition has fewer in-sync replicas than replicas. Replicas that a reassignment adds do not count:
    they are still catching up (KIP-352)."""
    return len(image.isr) < sum(1 for replica in image.replicas if replica not in image.adding_replicas)


class _Partitions:
    """Sums of all partitions, and a list of the first ones."""

    def __init__(self, node: NodeStatus, broker: Broker, out: Samples) -> None:
        self.node = node
        self.broker = broker
        self.out = out
        self.total = Traffic()
        self.listed = 0
        self.now_ms = broker.own_node.clock.now_ms()
        self.late_ms = broker.settings.transaction_max_timeout_ms + LATE_TRANSACTION_MS
        self.min_insync_replicas = 1
        """Of the current topic."""
        self.counts = dict.fromkeys(
            (
                "partitioncount",
                "leadercount",
                "offlinereplicacount",
                "underreplicatedpartitions",
                "underminisrpartitioncount",
                "atminisrpartitioncount",
                "reassigningpartitions",
                "produceridcount",
                "partitionswithlatetransactionscount",
            ),
            0,
        )
        self.max_lag = 0
        """Of this broker's followers."""
        self.total.add_all(broker.partitions.ended)

    async def add(self) -> None:
        broker, out = self.broker, self.out
        listed_topics = 0
        limit = broker.settings.moldau_metric_partitions
        for topic in list(broker.partitions.by_id.values()):
            traffic = Traffic()
            image = broker.image.topics_by_id.get(topic.topic_id)
            self.min_insync_replicas = self._minimum(topic.name)
            for index, partition in list(topic.partitions.items()):
                traffic.add(partition)
                self._count(partition, None if image is None else image.partitions.get(index))
                await broker.own_node.pauses.pause()
            self.total.add_all(traffic)
            if listed_topics < limit:
                listed_topics += 1
                labels = labels_text(topic=topic.name)
                out.add("kafka_topic_partitions", len(topic.partitions), labels)
                _add_traffic(out, traffic, labels, is_used_only=True)
        self._add_totals()
        out.add("redpanda_cluster_topics", len(broker.image.topics_by_id))
        _bound(out, "moldau_listed_partitions", self.listed, limit)

    def _minimum(self, topic: str) -> int:
        return min_insync_replicas_of_leader(self.broker.image, topic, self.broker.settings)

    def _count(self, partition: Partition, image: PartitionImage | None) -> None:
        counts = self.counts
        counts["partitioncount"] += 1
        counts["offlinereplicacount"] += partition.is_offline
        producers = partition.log.producer_state
        counts["produceridcount"] += len(producers.entries)
        counts["partitionswithlatetransactionscount"] += producers.has_late_transaction(self.now_ms, self.late_ms)
        role = partition.replica.role
        if isinstance(role, Follower):
            self.max_lag = max(self.max_lag, role.lag)
        if image is None:
            return
        if image.leader == self.broker.node_id:
            counts["leadercount"] += 1
            in_sync = len(image.isr)
            counts["underreplicatedpartitions"] += is_under_replicated(image)
            minimum = min(self.min_insync_replicas, len(image.replicas))
            counts["underminisrpartitioncount"] += in_sync < minimum
            counts["atminisrpartitioncount"] += in_sync == minimum
            counts["reassigningpartitions"] += bool(image.adding_replicas or image.removing_replicas)
        if self.listed < self.broker.settings.moldau_metric_partitions:
            self.listed += 1
            self._list(partition, image)

    def _list(self, partition: Partition, image: PartitionImage) -> None:
        add, log = self.out.add, partition.log
        topic, index = partition.topic_partition.topic, partition.topic_partition.partition
        labels = labels_text(topic=topic, partition=index)
        in_sync, replicas = len(image.isr), len(image.replicas)
        minimum = min(self.min_insync_replicas, replicas)
        high_watermark = partition.high_watermark
        under_replicated = int(is_under_replicated(image))
        add("kafka_cluster_partition_underreplicated", under_replicated, labels)
        add("kafka_cluster_partition_underminisr", int(in_sync < minimum), labels)
        add("kafka_cluster_partition_atminisr", int(in_sync == minimum), labels)
        add("kafka_cluster_partition_insyncreplicascount", in_sync, labels)
        add("kafka_cluster_partition_replicascount", replicas, labels)
        add("kafka_cluster_partition_laststableoffsetlag", high_watermark - partition.last_stable_offset, labels)
        add("kafka_log_log_size", log.size_bytes, labels)
        add("kafka_log_log_logendoffset", log.log_end_offset, labels)
        add("kafka_log_log_logstartoffset", log.log_start_offset, labels)
        add("kafka_log_log_numlogsegments", len(log.segments), labels)
        retention_bytes = log.settings.retention_bytes
        percent = 100 * log.size_bytes // retention_bytes if retention_bytes > 0 else 0
        add("kafka_log_log_retentionsizeinpercent", percent, labels)
        add("kafka_topic_partition_current_offset", high_watermark, labels)
        add("kafka_topic_partition_oldest_offset", log.log_start_offset, labels)
        add("kafka_topic_partition_leader", image.leader, labels)
        add("kafka_topic_partition_leader_is_preferred", int(image.leader == image.replicas[0]), labels)
        add("kafka_topic_partition_replicas", replicas, labels)
        add("kafka_topic_partition_in_sync_replica", in_sync, labels)
        add("kafka_topic_partition_under_replicated_partition", under_replicated, labels)
        redpanda = labels_text(redpanda_namespace="kafka", redpanda_topic=topic, redpanda_partition=index)
        add("redpanda_kafka_max_offset", high_watermark, redpanda)

    def _add_totals(self) -> None:
        broker, out, telemetry, total = self.broker, self.out, self.node.telemetry, self.total
        for name, count in self.counts.items():
            out.add(f"kafka_server_replicamanager_{name}", count)
        out.add("kafka_server_replicafetchermanager_maxlag", self.max_lag, labels_text(clientId="Replica"))
        failed = telemetry.value(FAILED_PRODUCE_REQUESTS)
        total.refused(failed)
        _add_traffic(out, total, "")
        out.add(f"{_TRAFFIC}failedproducerequests_total", failed)
        out.add(f"{_TRAFFIC}failedfetchrequests_total", telemetry.value(FAILED_FETCH_REQUESTS))
        out.add(f"{_TRAFFIC}bytesrejected_total", telemetry.value(BYTES_REJECTED))
        out.add(f"{_TRAFFIC}invalidmessagecrcrecords_total", telemetry.value(INVALID_MESSAGE_CRC_RECORDS))
        out.add(f"{_TRAFFIC}invalidoffsetorsequencerecords_total", telemetry.value(INVALID_SEQUENCE_RECORDS))
        errors: tuple[tuple[str, str, int], ...] = (
            ("Produce", PRODUCE_ERRORS, total.produce_requests - failed),
            ("Fetch", FETCH_ERRORS, total.fetch_requests),
        )
        for request, name, succeeded in errors:
            labels = labels_text(request=request, error="NONE")
            out.add("kafka_network_requestmetrics_errors_total", succeeded, labels)
            for label, count in telemetry.labels_of(name):
                labels = labels_text(request=request, error=name_of_code(int(label)))
                out.add("kafka_network_requestmetrics_errors_total", count, labels)
        out.add("redpanda_kafka_records_produced_total", total.messages_in, labels_text(redpanda_namespace="kafka"))
        for request, count in (("produce", total.bytes_in), ("consume", total.bytes_out)):
            labels = labels_text(redpanda_namespace="kafka", redpanda_request=request)
            out.add("redpanda_kafka_request_bytes_total", count, labels)
        self._add_bounds()
        self._add_directory()
        fetches = labels_text(delayedOperation="Fetch")
        out.add("kafka_server_delayedoperationpurgatory_purgatorysize", broker.fetches.parked, fetches)
        out.add("kafka_server_delayedoperationpurgatory_numdelayedoperations", broker.fetches.parked, fetches)

    def _add_bounds(self) -> None:
        broker, out = self.broker, self.out
        sessions = broker.fetches.sessions
        out.add("kafka_server_fetchsessioncache_numincrementalfetchsessions", sessions.count)
        out.add("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", sessions.partitions)
        out.add("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", sessions.evictions)
        for quota, count in broker.quotas.throttled.items():
            out.add("moldau_throttled_answers_total", count, labels_text(quota=quota))
        out.add("moldau_producer_ids_per_partition_limit", broker.settings.moldau_producer_ids)
        out.add("moldau_groups_per_coordinator_limit", broker.settings.moldau_groups)
        out.add("moldau_group_bytes_limit", broker.settings.moldau_group_bytes)
        out.add("moldau_group_member_bytes_limit", broker.settings.moldau_group_member_bytes)

    def _add_directory(self) -> None:
        broker, out = self.broker, self.out
        directories = broker.partitions.logs
        open_files = [getattr(directory.disk, "open_files", None) for directory in directories]
        if isinstance(open_files[0], int):
            _bound(out, "moldau_open_files", sum(filter(None, open_files)), broker.settings.moldau_open_files)
        out.add("kafka_log_logmanager_offlinelogdirectorycount", broker.offline_directories.count)
        out.add("kafka_log_logmanager_cordonedlogdirectorycount", sum(map(directories.is_cordoned, directories)))
        for path in directories.unopened_paths:
            out.add("kafka_log_logmanager_logdirectoryoffline", 1, labels_text(logDirectory=path))
        for directory in directories:
            labels = labels_text(logDirectory=directory.path)
            out.add("kafka_log_logmanager_logdirectoryoffline", int(directory.health.is_offline), labels)
            out.add("kafka_log_logmanager_logdirectorycordoned", int(directories.is_cordoned(directory)), labels)
            out.add("moldau_log_directory_full", int(directory.health.is_full), labels)
        root = getattr(broker.own_node.disk, "root", None)
        if isinstance(root, str):
            space = disk_space(root)
            if space is not None:
                out.add("redpanda_storage_disk_total_bytes", space[0])
                out.add("redpanda_storage_disk_free_bytes", space[1])


def _add_traffic(out: Samples, traffic: Traffic, labels: str, *, is_used_only: bool = False) -> None:
    for name, value in (
        ("bytesin", traffic.bytes_in),
        ("bytesout", traffic.bytes_out),
        ("messagesin", traffic.messages_in),
        ("totalproducerequests", traffic.produce_requests),
        ("totalfetchrequests", traffic.fetch_requests),
    ):
        if value or not is_used_only:
            out.add(f"{_TRAFFIC}{name}_total", value, labels)


async def add_controller(image: MetadataImage, quorum: QuorumRole, out: Samples) -> None:
    """Adds the controller's counts of brokers, topics and partitions in `image`, which this node has applied, and the
    metadata log. It pauses while it counts."""
    brokers = list(image.brokers.values())
    topics = list(image.topics_by_id.values())
    partitions, leaderless, not_preferred = await _leader_counts(topics, quorum.pauses)
    prefix = "kafka_controller_kafkacontroller_"
    active = sum(each.is_active for each in brokers)
    for name, value in (
        ("activecontrollercount", int(quorum.is_leader and not quorum.is_offline)),
        ("activebrokercount", active),
        ("fencedbrokercount", sum(each.is_fenced for each in brokers)),
        ("controlledshutdownbrokercount", sum(each.is_in_controlled_shutdown for each in brokers)),
        ("globaltopiccount", len(topics)),
        ("globalpartitioncount", partitions),
        ("offlinepartitionscount", leaderless),
        ("preferredreplicaimbalancecount", not_preferred),
        ("lastappliedrecordoffset", image.end_offset - 1),
        ("lastcommittedrecordoffset", quorum.high_watermark - 1),
        ("newactivecontrollerscount", quorum.leaderships),
    ):
        out.add(prefix + name, value)
    out.add("kafka_controller_controllerstats_uncleanleaderelections_total", quorum.unclean_elections)
    described = quorum.describe()
    leader_id = described.leader_id
    state = "leader" if quorum.is_leader else "unattached" if leader_id == NOBODY else "follower"
    out.add("kafka_server_raftmetrics_current_state", 1, labels_text(current_state=state))
    for name, value in (
        ("current_leader", leader_id),
        ("current_epoch", quorum.leader_epoch),
        ("current_vote", leader_id if quorum.is_leader else NOBODY),
        ("high_watermark", quorum.high_watermark),
        ("log_end_offset", quorum.log.log_end_offset),
        ("log_end_epoch", quorum.log.leader_epochs.latest_epoch),
        ("number_of_voters", len(described.listeners)),
        ("number_of_observers", len(described.observers)),
    ):
        out.add(f"kafka_server_raftmetrics_{name}", value)
    out.add("kafka_server_metadataloader_currentcontrollerid", leader_id)
    for feature, level in quorum.finalized_features().items():
        out.add("kafka_server_metadataloader_finalizedlevel", level, labels_text(featureName=feature))
        if feature == "metadata.version":
            out.add("kafka_server_metadataloader_currentmetadataversion", level)
    out.add("kafka_brokers", active)
    for each in brokers:
        registered = 10 if each.is_fenced else 20 if each.is_in_controlled_shutdown else 30
        out.add(f"{prefix}brokerregistrationstate", registered, labels_text(broker=each.broker_id))
        for listener in each.listeners[:1]:
            labels = labels_text(address=f"{listener.host}:{listener.port}", id=each.broker_id)
            out.add("kafka_broker_info", 1, labels)
    out.add("redpanda_cluster_brokers", active)
    out.add("redpanda_cluster_partitions", partitions)
    out.add("redpanda_cluster_unavailable_partitions", leaderless)


async def _leader_counts(topics: Iterable[TopicImage], pauses: Pauses) -> tuple[int, int, int]:
    """Counts partitions, partitions without a leader, and partitions whose leader is not the preferred replica."""
    count = leaderless = not_preferred = 0
    for topic in topics:
        for partition in list(topic.partitions.values()):
            count += 1
            await pauses.pause()
            leaderless += partition.leader < 0
            not_preferred += bool(partition.replicas) and partition.leader != partition.replicas[0]
    return count, leaderless, not_preferred
