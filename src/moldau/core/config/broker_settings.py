"""What a node is told at its start: Kafka's broker settings and our own, as a typed frozen view.

`parse_broker_settings({"log.retention.hours": "1"})` takes the texts of `--set NAME=VALUE` and of a .properties file
(see properties.py). A wrong type or range is error 40 with Kafka's sentence. An unknown name is kept, as in Kafka,
and told by `notices()`, as is every setting that has no effect here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from moldau.core.config.broker_setting_rows import BROKER_SETTING_ROWS
from moldau.core.config.listeners import (
    Endpoint,
    check_advertised,
    check_listeners,
    check_protocols,
    parse_endpoints,
    parse_protocol_map,
)
from moldau.core.config.setting import (
    HONOURED,
    IGNORED,
    NOT_SERVED,
    REFUSED,
    SettingRow,
    SettingValue,
    check_value,
    invalid_config,
    parse_value,
)
from moldau.core.quotas.connections import parse_overrides

ROWS_BY_NAME: dict[str, SettingRow] = {row[0]: row for row in BROKER_SETTING_ROWS}

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every honoured setting by its name with "_" for "."; `get` for any other. Times in the unit the name ends with.

    None stands for Kafka's null (nothing set, no default).
    """

    texts: dict[str, str]
    """What was set, as it was written; never changed."""
    listeners: tuple[Endpoint, ...]
    """The listeners for clients; those named by `controller.listener.names` are left out: they need no socket here."""
    advertised_listeners: tuple[Endpoint, ...]
    """What clients are told to call; empty if nothing was set."""

    broker_id: int
    broker_rack: str | None
    connections_max_idle_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_request_partition_size_limit: int
    queued_max_request_bytes: int
    socket_listen_backlog_size: int
    socket_request_max_bytes: int
    controller_listener_names: tuple[str, ...]
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    node_id: int
    process_roles: tuple[str, ...]
    auto_create_topics_enable: bool
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    cordoned_log_dirs: tuple[str, ...]
    delete_topic_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_dir: tuple[str, ...] | None
    log_dirs: tuple[str, ...] | None
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_initial_task_delay_ms: int
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_type: str
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_retention_hours: int
    log_retention_minutes: int | None
    log_retention_ms: int | None
    log_roll_hours: int
    log_roll_jitter_hours: int
    log_roll_jitter_ms: int | None
    log_roll_ms: int | None
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    message_max_bytes: int
    num_partitions: int
    default_replication_factor: int
    min_insync_replicas: int
    replica_high_watermark_checkpoint_interval_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    quota_window_num: int
    quota_window_size_seconds: int
    replica_alter_log_dirs_io_max_bytes_per_second: int
    listener_security_protocol_map: str
    moldau_record_validation: str
    moldau_request_memory_bytes: int
    moldau_response_memory_bytes: int
    moldau_frame_timeout_ms: int
    moldau_frame_progress_bytes: int
    moldau_connection_pending_responses: int
    moldau_connection_pending_response_bytes: int
    moldau_connection_high_water_bytes: int
    moldau_parked_fetches: int
    moldau_fetch_session_memory_bytes: int
    moldau_producer_ids: int
    moldau_groups: int
    moldau_group_member_bytes: int
    moldau_group_bytes: int
    moldau_group_memory_bytes: int
    moldau_open_files: int
    moldau_metric_series: int
    moldau_metric_partitions: int
    moldau_http_listener: str

    def get(self, name: str) -> SettingValue:
        """The typed value of any setting in the table. KeyError for a name that is not in it."""
        row = ROWS_BY_NAME[name]
        text = self.texts.get(name, row[2])
        return None if text is None else parse_value(name, row[1], text)

    def notices(self) -> tuple[str, ...]:
        """One sentence for each setting that was set and has no effect, sorted by name."""
        return tuple(notice for name in sorted(self.texts) if (notice := _notice(name)))

    @property
    def log_directories(self) -> tuple[str, ...]:
        """`log.dirs`, else `log.dir`; empty if no setting names one. The first holds the metadata log too."""
        return self.log_dirs or self.log_dir or ()

    @property
    def log_directory(self) -> str | None:
        """The first log directory; None if no setting names it."""
        return next(iter(self.log_directories), None)

    def advertised_listener(self, name: str) -> Endpoint | None:
        """What is advertised for the listener `name`; None: the local address of the connection that asks."""
        for endpoint in self.advertised_listeners:
            if endpoint.name == name:
                return endpoint
        return None

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
    def flush_interval_ms(self) -> int:
        """The default of `flush.ms`."""
        return (
            self.log_flush_scheduler_interval_ms if self.log_flush_interval_ms is None else self.log_flush_interval_ms
        )


def nearest_setting(name: str) -> str | None:
    """The setting whose name an unknown `name` is nearly: most likely a slip. None for a known name, and where none is
    near: plugins for Kafka have settings of their own."""
    if name in ROWS_BY_NAME:
        return None
    import difflib

    return next(iter(difflib.get_close_matches(name, ROWS_BY_NAME, n=1, cutoff=0.8)), None)


def _notice(name: str) -> str | None:
    row = ROWS_BY_NAME.get(name)
    if row is None:
        near = nearest_setting(name)
        hint = f"; did you mean {near}?" if near else ""
        return f"{name} is not a setting of Kafka 4.3 or of Moldau, and has no effect{hint}"
    served, note = row[5], row[6]
    if served == IGNORED:
        return f"{name} has no effect: {note}"
    if served == NOT_SERVED:
        return f"{name} is not served yet"
    return None


def parse_broker_settings(texts: Mapping[str, str]) -> BrokerSettings:
    """The settings that `texts` and the defaults make.

    Raises error 40 (INVALID_CONFIG) naming the first setting, in the order of `texts`, that is no value of its type,
    is out of its range, or asks for what is not served and cannot be left out in silence; then for what two settings
    together make impossible.
    """
    for name, text in texts.items():
        check_text(name, text)
    values: dict[str, object] = {**_default_values(), "texts": dict(texts)}
    for name, text in texts.items():
        row = ROWS_BY_NAME.get(name)
        if row is not None and row[5] == HONOURED:
            values[name.replace(".", "_")] = parse_value(name, row[1], text)
    values["listeners"], values["advertised_listeners"] = _listeners(values)
    settings = msgspec.convert(values, BrokerSettings)
    _check_together(settings)
    return settings


@cache
def _default_values() -> dict[str, object]:
    """By field: there are hundreds, and a broker works its settings out anew at each change."""
    return {
        name.replace(".", "_"): None if default is None else parse_value(name, kind, default)
        for name, kind, default, _, _, served, _ in BROKER_SETTING_ROWS
        if served == HONOURED
    }


def check_text(name: str, text: str) -> None:
    """Raises error 40 for a text that the setting `name` cannot have here; an unknown name may have any."""
    row = ROWS_BY_NAME.get(name)
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
    check_listeners(listeners)
    check_advertised(advertised, every)
    check_protocols(listeners, parse_protocol_map(str(values["listener_security_protocol_map"])))
    return listeners, tuple(endpoint for endpoint in advertised if endpoint.name not in controllers)


def _names(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _check_together(settings: BrokerSettings) -> None:
    """What Kafka's own start refuses, and what one node cannot be."""
    if sorted(settings.process_roles) != ["broker", "controller"]:
        raise invalid_config("process.roles must be broker,controller: nodes with one role are not served yet")
    if settings.broker_id not in (-1, settings.node_id):
        raise invalid_config("broker.id and node.id must be equal where both are set")
    directories = settings.log_directories
    if len(dict.fromkeys(directories)) != len(directories):
        raise invalid_config("log.dirs names a directory twice")
    unknown = [path for path in settings.cordoned_log_dirs if path not in (*directories, "*")]
    if unknown:
        raise invalid_config(f"cordoned.log.dirs: {unknown[0]} is not in log.dirs")
    try:
        parse_overrides(settings.max_connections_per_ip_overrides)
    except ValueError as error:
        raise invalid_config(str(error)) from None
    if 0 < settings.queued_max_request_bytes < settings.socket_request_max_bytes:
        raise invalid_config("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
    if settings.retention_ms == 0:
        raise invalid_config("log.retention.ms must be unlimited (-1) or, equal or greater than 1")
    if settings.roll_ms < 1:
        raise invalid_config("log.roll.ms must be greater than or equal to 1")
    if settings.roll_jitter_ms < 0:
        raise invalid_config("log.roll.jitter.ms must be greater than or equal to 0")
    if settings.offsets_topic_replication_factor > 1:
        raise invalid_config("offsets.topic.replication.factor: one node can hold one replica only")
