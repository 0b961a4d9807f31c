"""The settings of a node: Kafka's broker settings and our own, as a typed frozen view.

`parse_broker_settings({"log.retention.hours": "1"})` takes the texts of `--set NAME=VALUE` and of a .properties file
(see properties.py). A wrong type or range is error 40 with Kafka's sentence. An unknown name is kept, as in Kafka,
and named by `notices()`, as is every setting that has no effect here.
"""

# without `from __future__ import annotations`: rows are read from annotations, which would be texts
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated

import msgspec

from moldau.core.authentication.settings import check_sasl
from moldau.core.authorization.settings import AUTHORIZER_NOTE, AUTHORIZER_SETTINGS, check_authorizer
from moldau.core.config.broker_setting_rows import OTHER_SETTING_ROWS
from moldau.core.config.listeners import (
    Endpoint,
    check_advertised,
    check_listeners,
    check_protocols,
    check_registered,
    check_routable,
    parse_endpoints,
    parse_protocol_map,
    parse_servers,
)
from moldau.core.config.log_directories import check_directories
from moldau.core.config.quorum_checks import check_quorum
from moldau.core.config.quorum_voters import QuorumVoter, parse_voters
from moldau.core.config.security_settings import HTTP, Row, SecuritySettings
from moldau.core.config.setting import (
    CLUSTER_WIDE,
    HONOURED,
    IGNORED,
    NOT_SERVED,
    PER_BROKER,
    READ_ONLY,
    REFUSED,
    SettingRow,
    SettingValue,
    check_value,
    invalid_config,
    parse_value,
    without_listener,
)
from moldau.core.quotas.connections import parse_overrides
from moldau.types import hint
from moldau.wire.protocol.security_protocols import has_tls

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_FACTOR_NOTE = "not set, on a node whose settings name no other: as many as there are brokers, at most 3"
_IN_SYNC_NOTE = "not set: at most as many as the topic has replicas"

MAX_DECOMPRESSED_NOTE = "of a record that is produced in a compressed batch; what is stored is read whatever its size"

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
"""No replica selector, as if the setting was absent."""


class BrokerSettings(SecuritySettings, frozen=True, kw_only=True):
    """Every effective setting by its name, with "_" for "."; `get` for the others. Times are in the unit of the name.

    None is Kafka's null (not set, no default).
    """

    # One setting a line; the formatter would give each cell a line of its own.
    # fmt: off
    # general
    broker_id: Annotated[int, Row("int", "-1", "", READ_ONLY)]
    broker_rack: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    # security
    authorizer_class_name: Annotated[str, Row("string", "", "non-null string", READ_ONLY, AUTHORIZER_NOTE)]
    # network
    advertised_listeners: Annotated[tuple[Endpoint, ...], Row("list", None, "", READ_ONLY)]
    """The addresses that clients get; empty if the setting is absent."""
    connections_max_idle_ms: Annotated[int, Row("long", "600000", "", READ_ONLY, "negative: for ever")]
    fetch_max_bytes: Annotated[int, Row("int", "57671680", "[1024,...]", READ_ONLY)]
    inter_broker_listener_name: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    listeners: Annotated[tuple[Endpoint, ...], Row("list", "PLAINTEXT://127.0.0.1:9092", "", PER_BROKER,
        "Kafka binds every interface by default")]
    """The listeners for clients, without those in `controller.listener.names` (see `controller_endpoints`)."""
    max_connection_creation_rate: Annotated[int, Row("int", "2147483647", "[0,...]", CLUSTER_WIDE)]
    max_connections: Annotated[int, Row("int", "2147483647", "[0,...]", CLUSTER_WIDE)]
    max_connections_per_ip: Annotated[int, Row("int", "2147483647", "[0,...]", CLUSTER_WIDE)]
    max_connections_per_ip_overrides: Annotated[str, Row("string", "", "", CLUSTER_WIDE,
        "addresses and localhost; other names are refused")]
    max_incremental_fetch_session_cache_slots: Annotated[int, Row("int", "1000", "[0,...]", READ_ONLY)]
    max_request_partition_size_limit: Annotated[int, Row("int", "2000", "[1,...]", READ_ONLY)]
    queued_max_request_bytes: Annotated[int, Row("long", "-1", "", READ_ONLY)]
    socket_listen_backlog_size: Annotated[int, Row("int", "50", "[1,...]", READ_ONLY)]
    socket_request_max_bytes: Annotated[int, Row("int", "104857600", "[1,...]", READ_ONLY)]
    # quorum
    broker_heartbeat_interval_ms: Annotated[int, Row("int", "2000", "", READ_ONLY)]
    broker_session_timeout_ms: Annotated[int, Row("int", "9000", "", READ_ONLY)]
    controller_listener_names: Annotated[tuple[str, ...], Row("list", "CONTROLLER", "", READ_ONLY,
        "Kafka has no default; a node alone needs no socket for it")]
    controller_quorum_auto_join_enable: Annotated[bool, Row("boolean", "false", "", READ_ONLY)]
    controller_quorum_bootstrap_servers: Annotated[tuple[Endpoint, ...], Row("list",
        "", "non-empty list", READ_ONLY)]
    controller_quorum_election_timeout_ms: Annotated[int, Row("int", "1000", "[0,...]", READ_ONLY)]
    controller_quorum_fetch_timeout_ms: Annotated[int, Row("int", "2000", "[0,...]", READ_ONLY)]
    controller_quorum_request_timeout_ms: Annotated[int, Row("int", "2000", "[0,...]", READ_ONLY)]
    controller_quorum_retry_backoff_ms: Annotated[int, Row("int", "20", "[0,...]", READ_ONLY)]
    controller_quorum_voters: Annotated[tuple[QuorumVoter, ...], Row("list", "", "non-empty list", READ_ONLY,
        "empty: this node alone, or those that the metadata log names")]
    initial_broker_registration_timeout_ms: Annotated[int, Row("int", "60000", "", READ_ONLY)]
    metadata_log_dir: Annotated[str | None, Row("string", None, "", READ_ONLY,
        "only the first of log.dirs: the metadata log lies there")]
    metadata_log_max_record_bytes_between_snapshots: Annotated[int, Row("long", "20971520", "[1,...]", READ_ONLY)]
    metadata_log_max_snapshot_interval_ms: Annotated[int, Row("long", "3600000", "[0,...]", READ_ONLY)]
    metadata_log_segment_bytes: Annotated[int, Row("int", "1073741824", "[8388608,...]", READ_ONLY)]
    metadata_log_segment_ms: Annotated[int, Row("long", "604800000", "", READ_ONLY)]
    metadata_max_retention_bytes: Annotated[int, Row("long", "104857600", "", READ_ONLY)]
    metadata_max_retention_ms: Annotated[int, Row("long", "604800000", "", READ_ONLY)]
    node_id: Annotated[int, Row("int", "1", "[0,...]", READ_ONLY, "Kafka has no default")]
    process_roles: Annotated[tuple[str, ...], Row("list", "broker,controller", "[broker, controller]", READ_ONLY,
        "Kafka has no default; a node alone is both")]
    # log
    auto_create_topics_enable: Annotated[bool, Row("boolean", "true", "", READ_ONLY)]
    compression_gzip_level: Annotated[int, Row("int", "-1", "[1,...,9] or -1", CLUSTER_WIDE)]
    compression_lz4_level: Annotated[int, Row("int", "9", "[1,...,17]", CLUSTER_WIDE)]
    compression_type: Annotated[str, Row("string",
        "producer", "[uncompressed, zstd, lz4, snappy, gzip, producer]", CLUSTER_WIDE)]
    compression_zstd_level: Annotated[int, Row("int", "3", "[-131072,...,22]", CLUSTER_WIDE)]
    cordoned_log_dirs: Annotated[tuple[str, ...], Row("list", "", "", PER_BROKER)]
    delete_topic_enable: Annotated[bool, Row("boolean", "true", "", READ_ONLY)]
    log_cleaner_backoff_ms: Annotated[int, Row("long", "15000", "[0,...]", CLUSTER_WIDE)]
    log_cleaner_dedupe_buffer_size: Annotated[int, Row("long", "134217728", "", CLUSTER_WIDE)]
    log_cleaner_delete_retention_ms: Annotated[int, Row("long", "86400000", "[0,...]", CLUSTER_WIDE)]
    log_cleaner_enable: Annotated[bool, Row("boolean", "true", "", READ_ONLY)]
    log_cleaner_io_buffer_size: Annotated[int, Row("int", "524288", "[0,...]", CLUSTER_WIDE)]
    log_cleaner_io_max_bytes_per_second: Annotated[float, Row("double", "1.7976931348623157E308", "", CLUSTER_WIDE)]
    log_cleaner_max_compaction_lag_ms: Annotated[int, Row("long", "9223372036854775807", "[1,...]", CLUSTER_WIDE)]
    log_cleaner_min_cleanable_ratio: Annotated[float, Row("double", "0.5", "[0,...,1]", CLUSTER_WIDE)]
    log_cleaner_min_compaction_lag_ms: Annotated[int, Row("long", "0", "[0,...]", CLUSTER_WIDE)]
    log_cleanup_policy: Annotated[tuple[str, ...], Row("list", "delete", "[compact, delete]", CLUSTER_WIDE)]
    log_dir: Annotated[tuple[str, ...] | None, Row("list", None, "", READ_ONLY,
        "Kafka: /tmp/kafka-logs; here one must be named")]
    log_dirs: Annotated[tuple[str, ...] | None, Row("list", None, "", READ_ONLY)]
    log_flush_interval_messages: Annotated[int, Row("long", "9223372036854775807", "[1,...]", CLUSTER_WIDE)]
    log_flush_interval_ms: Annotated[int | None, Row("long", None, "", CLUSTER_WIDE)]
    log_flush_offset_checkpoint_interval_ms: Annotated[int, Row("int", "60000", "[0,...]", READ_ONLY)]
    log_flush_scheduler_interval_ms: Annotated[int, Row("long", "9223372036854775807", "", READ_ONLY)]
    log_flush_start_offset_checkpoint_interval_ms: Annotated[int, Row("int", "60000", "[0,...]", READ_ONLY)]
    log_index_interval_bytes: Annotated[int, Row("int", "4096", "[0,...]", CLUSTER_WIDE)]
    log_index_size_max_bytes: Annotated[int, Row("int", "10485760", "[4,...]", CLUSTER_WIDE)]
    log_initial_task_delay_ms: Annotated[int, Row("long", "30000", "[0,...]", READ_ONLY)]
    log_message_timestamp_after_max_ms: Annotated[int, Row("long", "3600000", "[0,...]", CLUSTER_WIDE)]
    log_message_timestamp_before_max_ms: Annotated[int, Row("long", "9223372036854775807", "[0,...]", CLUSTER_WIDE)]
    log_message_timestamp_type: Annotated[str, Row("string", "CreateTime", "[CreateTime, LogAppendTime]", CLUSTER_WIDE)]
    log_retention_bytes: Annotated[int, Row("long", "-1", "", CLUSTER_WIDE)]
    log_retention_check_interval_ms: Annotated[int, Row("long", "300000", "[1,...]", READ_ONLY)]
    log_retention_hours: Annotated[int, Row("int", "168", "", READ_ONLY)]
    log_retention_minutes: Annotated[int | None, Row("int", None, "", READ_ONLY)]
    log_retention_ms: Annotated[int | None, Row("long", None, "", CLUSTER_WIDE)]
    log_roll_hours: Annotated[int, Row("int", "168", "[1,...]", READ_ONLY)]
    log_roll_jitter_hours: Annotated[int, Row("int", "0", "[0,...]", READ_ONLY)]
    log_roll_jitter_ms: Annotated[int | None, Row("long", None, "", CLUSTER_WIDE)]
    log_roll_ms: Annotated[int | None, Row("long", None, "", CLUSTER_WIDE)]
    log_segment_bytes: Annotated[int, Row("int", "1073741824", "[1048576,...]", CLUSTER_WIDE)]
    log_segment_delete_delay_ms: Annotated[int, Row("long", "60000", "[0,...]", CLUSTER_WIDE)]
    max_decompressed_message_bytes: Annotated[int, Row("int", "2147483639", "[1,...,2147483639]", CLUSTER_WIDE,
        MAX_DECOMPRESSED_NOTE)]
    message_max_bytes: Annotated[int, Row("int", "1048588", "[0,...]", CLUSTER_WIDE)]
    num_partitions: Annotated[int, Row("int", "1", "[1,...]", READ_ONLY)]
    # replication
    auto_leader_rebalance_enable: Annotated[bool, Row("boolean", "true", "", READ_ONLY)]
    default_replication_factor: Annotated[int, Row("int", "1", "", READ_ONLY)]
    leader_imbalance_check_interval_seconds: Annotated[int, Row("long", "300", "[1,...]", READ_ONLY)]
    min_insync_replicas: Annotated[int, Row("int", "1", "[1,...]", CLUSTER_WIDE)]
    replica_fetch_backoff_ms: Annotated[int, Row("int", "1000", "[0,...]", READ_ONLY)]
    replica_fetch_max_bytes: Annotated[int, Row("int", "1048576", "[0,...]", READ_ONLY)]
    replica_fetch_min_bytes: Annotated[int, Row("int", "1", "", READ_ONLY)]
    replica_fetch_response_max_bytes: Annotated[int, Row("int", "10485760", "[0,...]", READ_ONLY)]
    replica_fetch_wait_max_ms: Annotated[int, Row("int", "500", "", READ_ONLY)]
    replica_high_watermark_checkpoint_interval_ms: Annotated[int, Row("long", "5000", "", READ_ONLY)]
    replica_lag_time_max_ms: Annotated[int, Row("long", "30000", "", READ_ONLY)]
    replica_selector_class: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    replica_socket_timeout_ms: Annotated[int, Row("int", "30000", "", READ_ONLY)]
    unclean_leader_election_enable: Annotated[bool, Row("boolean", "false", "", CLUSTER_WIDE)]
    unclean_leader_election_interval_ms: Annotated[int, Row("long", "300000", "[1,...]", READ_ONLY)]
    # groups
    group_initial_rebalance_delay_ms: Annotated[int, Row("int", "3000", "", READ_ONLY)]
    group_max_session_timeout_ms: Annotated[int, Row("int", "1800000", "", READ_ONLY)]
    group_max_size: Annotated[int, Row("int", "2147483647", "[1,...]", READ_ONLY)]
    group_min_session_timeout_ms: Annotated[int, Row("int", "6000", "", READ_ONLY)]
    offset_metadata_max_bytes: Annotated[int, Row("int", "4096", "", READ_ONLY)]
    offsets_retention_check_interval_ms: Annotated[int, Row("long", "600000", "[1,...]", READ_ONLY)]
    offsets_retention_minutes: Annotated[int, Row("int", "10080", "[1,...]", READ_ONLY)]
    offsets_topic_compression_codec: Annotated[int, Row("int", "0", "[0,...,4]", READ_ONLY)]
    offsets_topic_num_partitions: Annotated[int, Row("int", "50", "[1,...]", READ_ONLY)]
    offsets_topic_replication_factor: Annotated[int, Row("short", "3", "[1,...]", READ_ONLY, _FACTOR_NOTE)]
    offsets_topic_segment_bytes: Annotated[int, Row("int", "104857600", "[1,...]", READ_ONLY)]
    # transactions
    add_partitions_to_txn_retry_backoff_max_ms: Annotated[int, Row("int", "100", "[0,...]", READ_ONLY)]
    add_partitions_to_txn_retry_backoff_ms: Annotated[int, Row("int", "20", "[1,...]", READ_ONLY)]
    producer_id_expiration_ms: Annotated[int, Row("int", "86400000", "[1,...]", CLUSTER_WIDE)]
    transaction_max_timeout_ms: Annotated[int, Row("int", "900000", "[1,...]", READ_ONLY)]
    transaction_partition_verification_enable: Annotated[bool, Row("boolean", "true", "", CLUSTER_WIDE)]
    transaction_remove_expired_transaction_cleanup_interval_ms: Annotated[int, Row("int",
        "3600000", "[1,...]", READ_ONLY)]
    transaction_state_log_min_isr: Annotated[int, Row("int", "2", "[1,...]", READ_ONLY, _IN_SYNC_NOTE)]
    transaction_state_log_num_partitions: Annotated[int, Row("int", "50", "[1,...]", READ_ONLY)]
    transaction_state_log_replication_factor: Annotated[int, Row("short",
        "3", "[1,...]", READ_ONLY, _FACTOR_NOTE)]
    transaction_state_log_segment_bytes: Annotated[int, Row("int", "104857600", "[1,...]", READ_ONLY)]
    transactional_id_expiration_ms: Annotated[int, Row("int", "604800000", "[1,...]", READ_ONLY)]
    # security
    security_inter_broker_protocol: Annotated[str, Row("string",
        "PLAINTEXT", "[PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL]", READ_ONLY)]
    # quota
    controller_quota_window_num: Annotated[int, Row("int", "11", "[1,...]", READ_ONLY)]
    controller_quota_window_size_seconds: Annotated[int, Row("int", "1", "[1,...]", READ_ONLY)]
    quota_window_num: Annotated[int, Row("int", "11", "[1,...]", READ_ONLY)]
    quota_window_size_seconds: Annotated[int, Row("int", "1", "[1,...]", READ_ONLY)]
    follower_replication_throttled_rate: Annotated[int, Row("long", "9223372036854775807", "[0,...]", PER_BROKER)]
    leader_replication_throttled_rate: Annotated[int, Row("long", "9223372036854775807", "[0,...]", PER_BROKER)]
    replication_quota_window_num: Annotated[int, Row("int", "11", "[1,...]", READ_ONLY)]
    replication_quota_window_size_seconds: Annotated[int, Row("int", "1", "[1,...]", READ_ONLY)]
    replica_alter_log_dirs_io_max_bytes_per_second: Annotated[int, Row("long",
        "9223372036854775807", "[0,...]", PER_BROKER)]
    # our own
    moldau_record_validation: Annotated[str, Row("string", "header", "[header, compressed, full]", READ_ONLY,
        "what the broker checks in a produced batch: the header, also compressed records, or all records")]
    moldau_request_memory_bytes: Annotated[int, Row("long", "536870912", "[1048576,...]", READ_ONLY,
        "bytes of requests held at once; above it the broker reads no socket",
        "Bytes of requests that are arriving")]
    moldau_response_memory_bytes: Annotated[int, Row("long", "134217728", "[1048576,...]", READ_ONLY,
        "bytes of responses held at once; above it a fetch reads at most 64 KiB or one batch",
        "Bytes of answers that peers have not read")]
    moldau_frame_timeout_ms: Annotated[int, Row("int", "30000", "[1,...]", READ_ONLY,
        "closes a connection whose incomplete frame got fewer than moldau.frame.progress.bytes in this time")]
    moldau_handshake_timeout_ms: Annotated[int, Row("int", "10000", "[1,...]", READ_ONLY,
        "closes a connection whose TLS handshake and authentication are not done in this time")]
    moldau_frame_progress_bytes: Annotated[int, Row("int", "65536", "[1,...]", READ_ONLY)]
    moldau_connection_pending_responses: Annotated[int, Row("int", "64", "[1,...]", READ_ONLY,
        "requests of one connection that may wait for their answers at once")]
    moldau_connection_pending_response_bytes: Annotated[int, Row("int", "8388608", "[1,...]", READ_ONLY)]
    moldau_connection_high_water_bytes: Annotated[int, Row("int", "1048576", "[1,...]", READ_ONLY,
        "bytes of unsent responses of a connection; above it the broker reads no records for it")]
    moldau_parked_fetches: Annotated[int, Row("int", "10000", "[1,...]", READ_ONLY,
        "fetches that wait for records at once; above it a fetch is answered without waiting",
        "Fetches that wait for records")]
    moldau_fetch_session_memory_bytes: Annotated[int, Row("long", "67108864", "[0,...]", READ_ONLY,
        "bytes of fetch sessions kept; above it a consumer names all its partitions in each request",
        "Bytes of fetch sessions kept")]
    moldau_producer_ids: Annotated[int, Row("int", "100000", "[1,...]", READ_ONLY,
        "idempotent producers that one partition remembers; the least recently used is forgotten first")]
    moldau_groups: Annotated[int, Row("int", "100000", "[1,...]", READ_ONLY,
        "groups that one coordinator partition holds; above it a new group gets 81")]
    moldau_transactional_ids: Annotated[int, Row("int", "100000", "[1,...]", READ_ONLY,
        "transactional ids that one coordinator partition holds; above it a new one gets 44")]
    moldau_group_member_bytes: Annotated[int, Row("int", "1048576", "[4096,...]", READ_ONLY,
        "bytes of one group member's metadata and assignment; above it the member gets 42")]
    moldau_group_bytes: Annotated[int, Row("int", "16777216", "[4096,...]", READ_ONLY,
        "bytes of all members of one group; above it a member gets 81")]
    moldau_group_memory_bytes: Annotated[int, Row("long", "268435456", "[65536,...]", READ_ONLY,
        "bytes of the members of all groups, at most 5 % of RAM; above it a member gets 81",
        "Bytes that members of groups hold")]
    moldau_broker_suspicion_ms: Annotated[int, Row("int", "500", "[1,...]", READ_ONLY,
        "how long a broker whose connection for heartbeats has ended may take to be heard of on another one")]
    moldau_open_files: Annotated[int, Row("int", "4096", "[16,...]", READ_ONLY, "segment and index files open at once",
        "Segment and index files open")]
    moldau_metric_series: Annotated[int, Row("int", "100000", "[100,...]", READ_ONLY,
        "series (names with labels) that a node counts; above it further ones are counted together",
        "Series counted by name and label")]
    moldau_metric_partitions: Annotated[int, Row("int", "1000", "[0,...]", READ_ONLY,
        "partitions that /metrics lists one by one; sums count all of them")]
    moldau_http_listener: Annotated[str, Row("string", "", "", READ_ONLY,
        "HOST:PORT of /metrics, /live, /ready (PORT+: or any free port); empty: none (moldau up sets it)")]
    moldau_audit_file: Annotated[str, Row("string", "", "", READ_ONLY,
        "the audit log: refusals and changes by administrators, a line of JSON each; empty: none")]
    moldau_audit_file_max_bytes: Annotated[int, Row("long", "104857600", "[4096,...]", READ_ONLY,
        "of one file of the audit log; a full one is put aside")]
    moldau_audit_files: Annotated[int, Row("int", "10", "[1,...,1000]", READ_ONLY,
        "of the audit log that are kept, with the one that is written to")]
    moldau_audit_queue_events: Annotated[int, Row("int", "10000", "[1,...]", READ_ONLY,
        "that wait for the disk; above it an event is dropped and counted",
        "Events of the audit log that wait for the disk")]
    # fmt: on

    def __repr__(self) -> str:
        """Without the values: some are secrets."""
        return f"BrokerSettings(node.id={self.node_id}, {len(self.texts)} set)"

    @classmethod
    def bounds(cls) -> dict[str, str]:
        """The settings that bound a resource: by field, the counted things."""
        return {field: row.held for field, row in _rows_by_field() if row.held}

    def get(self, name: str) -> SettingValue:
        """The typed value of any setting in the table. KeyError for a name that is not in it."""
        row = ROWS_BY_NAME[name]
        text = self.texts.get(name, row[2])
        return None if text is None else parse_value(name, row[1], text)

    def notices(self) -> tuple[str, ...]:
        """One sentence for each setting that was set and has no effect, sorted by name."""
        known = AUTHORIZER_SETTINGS if self.has_authorizer else ()
        return tuple(notice for name in sorted(self.texts) if name not in known and (notice := _notice(name)))

    def limit_of_listener(self, listener_name: str, setting: str) -> int | None:
        """The value of a row of LISTENER_LIMITS for this listener; None: not set."""
        text = self.texts.get(f"listener.name.{listener_name.lower()}.{setting}")
        return None if text is None else int(str(parse_value(setting, "int", text)))

    @property
    def has_authorizer(self) -> bool:
        """Whether ACLs decide about access."""
        return bool(self.authorizer_class_name)

    @property
    def log_directories(self) -> tuple[str, ...]:
        """`log.dirs`, else `log.dir`; empty if no setting names one. The first holds the metadata log too."""
        return self.log_dirs or self.log_dir or ()

    @property
    def log_directory(self) -> str | None:
        """The first log directory; None if no setting names it."""
        return next(iter(self.log_directories), None)

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """The `listeners` of `controller.listener.names`, in that order. Empty for a single node without such a
        listener."""
        return self._of_controllers("listeners")

    @property
    def tls_listeners(self) -> tuple[str, ...]:
        """The names of the TLS listeners that this node has or connects to."""
        own = [endpoint.name for endpoint in self.listeners]
        controllers = [name.upper() for name in self.controller_listener_names]
        names = dict.fromkeys([*own, *([self.inter_broker_listener] if self.is_broker else ()), *controllers])
        return tuple(name for name in names if has_tls(self.protocol_of(name)))

    @property
    def advertised_controller_endpoints(self) -> tuple[Endpoint, ...]:
        """`controller_endpoints` as other nodes reach them: from `advertised.listeners`, else from `listeners`."""
        told = {endpoint.name: endpoint for endpoint in self._of_controllers("advertised.listeners")}
        return tuple(told.get(endpoint.name, endpoint) for endpoint in self.controller_endpoints)

    def _of_controllers(self, setting: str) -> tuple[Endpoint, ...]:
        text = self.texts.get(setting, "")
        items = _names(parse_value(setting, "list", text)) if text else ()
        found = {endpoint.name: endpoint for endpoint in parse_endpoints(setting, items)}
        names = dict.fromkeys(name.upper() for name in self.controller_listener_names)
        return tuple(found[name] for name in names if name in found)

    @property
    def registered_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners in the metadata: of `advertised.listeners`, else of `listeners`, as in Apache Kafka."""
        return self.advertised_listeners or self.listeners

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener between brokers. As in Kafka, that of `security.inter.broker.protocol` if nothing is
        set."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def is_controller(self) -> bool:
        """The node may vote and lead the quorum."""
        return "controller" in self.process_roles

    @property
    def is_broker(self) -> bool:
        """The node has partitions and serves clients."""
        return "broker" in self.process_roles

    @property
    def is_alone(self) -> bool:
        """No setting names another controller, so a new directory is a new cluster. Brokers may still join."""
        if not self.is_controller:
            return False
        points = (*self.controller_endpoints, *self.advertised_controller_endpoints)
        own = [(host, point.port) for point in points for host in (point.host, "localhost")]
        others = [each for each in self.controller_quorum_bootstrap_servers if (each.host, each.port) not in own]
        return len(self.controller_quorum_voters) < 2 and not others

    @property
    def is_whole(self) -> bool:
        """This node is the whole cluster. It has both roles and no listener at which others could join."""
        return self.is_alone and self.is_broker and not self.controller_endpoints

    @property
    def retention_ms(self) -> int:
        """The default of `retention.ms`; -1 keeps for ever."""
        if self.log_retention_ms is not None:
            value = self.log_retention_ms
        elif self.log_retention_minutes is not None:
            value = self.log_retention_minutes * _MINUTE_MS
        else:
            value = self.log_retention_hours * _HOUR_MS
        return -1 if value < 0 else value

    @property
    def roll_ms(self) -> int:
        """The default of `segment.ms`."""
        return self.log_roll_hours * _HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def roll_jitter_ms(self) -> int:
        """The default of `segment.jitter.ms`."""
        return self.log_roll_jitter_hours * _HOUR_MS if self.log_roll_jitter_ms is None else self.log_roll_jitter_ms

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` in milliseconds."""
        return self.offsets_retention_minutes * _MINUTE_MS

    @property
    def flush_interval_ms(self) -> int:
        """The default of `flush.ms`."""
        return (
            self.log_flush_scheduler_interval_ms if self.log_flush_interval_ms is None else self.log_flush_interval_ms
        )


def _rows_by_field() -> Iterator[tuple[str, Row]]:
    for field, annotation in {**SecuritySettings.__annotations__, **BrokerSettings.__annotations__}.items():
        for row in getattr(annotation, "__metadata__", ()):
            yield field, row


BROKER_SETTING_ROWS: tuple[SettingRow, ...] = (
    *((field.replace("_", "."), *row[:4], HONOURED, row.note) for field, row in _rows_by_field()),
    *OTHER_SETTING_ROWS,
)
ROWS_BY_NAME: dict[str, SettingRow] = {row[0]: row for row in BROKER_SETTING_ROWS}


def setting_hint(name: str) -> str:
    """As `hint`, for an unknown `name` that is very close to a setting. Kafka's plugins have settings of their own."""
    known = (*ROWS_BY_NAME, *AUTHORIZER_SETTINGS)
    return "" if name in known else hint(name, known, cutoff=0.8)


def no_setting(name: str) -> str:
    """The sentence about an unknown setting."""
    return f"{name} is not a setting of Kafka 4.4 or of Moldau"


def _notice(name: str) -> str | None:
    row = ROWS_BY_NAME.get(without_listener(name, ROWS_BY_NAME))
    if name in AUTHORIZER_SETTINGS:
        return f"{name} has no effect: authorizer.class.name is not set"
    if row is None:
        return f"{no_setting(name)}, and has no effect{setting_hint(name)}"
    served, note = row[5], row[6]
    if served == IGNORED:
        return f"{name} has no effect: {note}"
    if served == NOT_SERVED:
        return f"{name} is not served yet"
    return None


def parse_broker_settings(texts: Mapping[str, str], *, is_for_start: bool = True) -> BrokerSettings:
    """The settings from `texts` and the defaults. `is_for_start`: also checks logins, certificates and the authorizer,
    as a start does.

    Raises error 40 (INVALID_CONFIG) for the first setting, in the order of `texts`, with a wrong type, a value out of
    range, or an unsupported value; then for combinations of settings that are impossible.
    """
    for name, text in texts.items():
        check_text(name, text)
    values: dict[str, object] = {**_default_values(), "texts": dict(texts)}
    for name, text in texts.items():
        row = ROWS_BY_NAME.get(name)
        if row is not None and row[5] == HONOURED:
            values[name.replace(".", "_")] = parse_value(name, row[1], text)
    values["listeners"], values["advertised_listeners"] = _listeners(values)
    values["controller_quorum_voters"] = parse_voters(_names(values["controller_quorum_voters"]))
    servers = _names(values["controller_quorum_bootstrap_servers"])
    values["controller_quorum_bootstrap_servers"] = parse_servers("controller.quorum.bootstrap.servers", servers)
    settings = msgspec.convert(values, BrokerSettings)
    _check_together(settings)
    if is_for_start:
        _check_security(settings)
    return settings


@cache
def _default_values() -> dict[str, object]:
    """The default values by field, cached: they are hundreds, and a broker computes its settings after each change."""
    return {
        name.replace(".", "_"): None if default is None else parse_value(name, kind, default)
        for name, kind, default, _, _, served, _ in BROKER_SETTING_ROWS
        if served == HONOURED
    }


def check_text(name: str, text: str) -> None:
    """Raises error 40 for a text that the setting `name` cannot have. An unknown name may have any."""
    row = ROWS_BY_NAME.get(without_listener(name, ROWS_BY_NAME))
    if row is None:
        return
    value = parse_value(name, row[1], text)
    check_value(name, row[3], value)
    if row[5] == REFUSED and value != (None if row[2] is None else parse_value(name, row[1], row[2])):
        raise invalid_config(
            f"{name} is not served yet: Moldau does not start with this value, since to ignore it would be unsafe"
        )


def _listeners(values: Mapping[str, object]) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    every = parse_endpoints("listeners", _names(values["listeners"]))
    controllers = [name.upper() for name in _names(values["controller_listener_names"])]
    advertised = parse_endpoints("advertised.listeners", _names(values["advertised_listeners"]))
    listeners = tuple(endpoint for endpoint in every if endpoint.name not in controllers)
    if "broker" in _names(values["process_roles"]):
        check_listeners(listeners)
    check_advertised(advertised, every)
    check_protocols(listeners, parse_protocol_map(str(values["listener_security_protocol_map"])))
    return listeners, tuple(endpoint for endpoint in advertised if endpoint.name not in controllers)


def _names(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _check_together(settings: BrokerSettings) -> None:
    """Combinations that Kafka rejects at its start, and settings that one node cannot have."""
    if sorted(settings.process_roles) not in (["broker"], ["controller"], ["broker", "controller"]):
        raise invalid_config("process.roles must be broker, controller or broker,controller")
    if settings.broker_id not in (-1, settings.node_id):
        raise invalid_config("broker.id and node.id must be equal where both are set")
    if settings.is_broker:
        check_registered(settings.registered_listeners, settings.inter_broker_listener)
        if not settings.is_alone:
            check_routable(settings.registered_listeners)
    if all(name in settings.texts for name in ("inter.broker.listener.name", "security.inter.broker.protocol")):
        raise invalid_config("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    check_quorum(settings)
    check_directories(settings.log_directories, settings.metadata_log_dir, settings.cordoned_log_dirs)
    try:
        parse_overrides(settings.max_connections_per_ip_overrides)
    except ValueError as error:
        raise invalid_config(str(error)) from None
    if settings.replica_selector_class not in (None, LEADER_ONLY, RACK_AWARE):
        raise invalid_config(f"replica.selector.class must be {RACK_AWARE} or {LEADER_ONLY}: no other is known here")
    if 0 < settings.queued_max_request_bytes < settings.socket_request_max_bytes:
        raise invalid_config("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
    if settings.retention_ms == 0:
        raise invalid_config("log.retention.ms must be unlimited (-1) or, equal or greater than 1")
    if settings.roll_ms < 1:
        raise invalid_config("log.roll.ms must be greater than or equal to 1")
    if settings.roll_jitter_ms < 0:
        raise invalid_config("log.roll.jitter.ms must be greater than or equal to 0")
    for name in ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        if settings.is_whole and name in settings.texts and settings.get(name) != 1:
            raise invalid_config(f"{name}: one node can hold one replica only")


def _check_security(settings: BrokerSettings) -> None:
    """Raises error 40 if a listener cannot be secured as its settings require. Kafka formats a directory with such
    settings."""
    check_authorizer(settings.authorizer_class_name, settings.texts)
    own = [endpoint.name for endpoint in (*settings.listeners, *settings.controller_endpoints)]
    for name in settings.tls_listeners:
        tls = settings.tls_of(name)
        if name in own and tls is not None and tls.keystore is None:
            raise invalid_config(
                f"listener {name} speaks TLS and has no certificate: set ssl.keystore.type=PEM and "
                f"ssl.keystore.location, or both with the prefix listener.name.{name.lower()}."
            )
    http = settings.tls_of(HTTP) if settings.moldau_http_tls else None
    if http is not None and http.keystore is None:
        raise invalid_config("moldau.http.tls needs a certificate: set ssl.keystore.type=PEM and ssl.keystore.location")
    check_sasl(settings)
