"""Every group setting (resource type 32) and client metrics setting (16) of Kafka 4.4, one row each.

A group's row: (name, type, default, valid values, broker settings it falls back to, served, note); one of client
metrics has no fallback. See topic_setting_rows.py.
"""

from __future__ import annotations

from moldau.core.config.defaults_of_broker import OF_BROKER, with_defaults_of_broker
from moldau.core.config.setting import NOT_SERVED, TopicSettingRow

_CONSUMER = "stored and described; it acts with the consumer protocol of KIP-848"
_SHARE = "stored and described; it acts with share groups"
_STREAMS = "stored and described; it acts with streams groups"
_METRICS = "stored and described; the broker does not ask clients for their metrics"

HIDDEN_GROUP_SETTINGS = (
    "consumer.assignor.offload.enable",
    "share.assignor.offload.enable",
    "streams.acceptable.recovery.lag",
    "streams.assignor.offload.enable",
    "streams.num.warmup.replicas",
    "streams.task.offset.interval.ms",
)
"""Kafka's internal group settings: accepted, and described only if set."""

# fmt: off
GROUP_SETTING_ROWS: tuple[TopicSettingRow, ...] = with_defaults_of_broker((
    ("consumer.assignment.interval.ms", "int", OF_BROKER, "[0,...]", ("group.consumer.assignment.interval.ms",),
     NOT_SERVED, _CONSUMER),
    ("consumer.assignor.offload.enable", "boolean", OF_BROKER, "", ("group.consumer.assignor.offload.enable",),
     NOT_SERVED, _CONSUMER),
    ("consumer.heartbeat.interval.ms", "int", OF_BROKER, "[1,...]", ("group.consumer.heartbeat.interval.ms",),
     NOT_SERVED, _CONSUMER),
    ("consumer.session.timeout.ms", "int", OF_BROKER, "[1,...]", ("group.consumer.session.timeout.ms",),
     NOT_SERVED, _CONSUMER),
    ("errors.deadletterqueue.copy.record.enable", "boolean", "false", "", (), NOT_SERVED, _SHARE),
    ("errors.deadletterqueue.topic.name", "string", "", "", (), NOT_SERVED, _SHARE),
    ("share.assignment.interval.ms", "int", OF_BROKER, "[0,...]", ("group.share.assignment.interval.ms",),
     NOT_SERVED, _SHARE),
    ("share.assignor.offload.enable", "boolean", OF_BROKER, "", ("group.share.assignor.offload.enable",),
     NOT_SERVED, _SHARE),
    ("share.auto.offset.reset", "string", "latest", "[latest, earliest, by_duration:PnDTnHnMn.nS]", (),
     NOT_SERVED, _SHARE),
    ("share.delivery.count.limit", "int", OF_BROKER, "[2,...]", ("group.share.delivery.count.limit",),
     NOT_SERVED, _SHARE),
    ("share.heartbeat.interval.ms", "int", OF_BROKER, "[1,...]", ("group.share.heartbeat.interval.ms",),
     NOT_SERVED, _SHARE),
    ("share.isolation.level", "string", "read_uncommitted", "[read_committed, read_uncommitted]", (),
     NOT_SERVED, _SHARE),
    ("share.partition.max.record.locks", "int", OF_BROKER, "[100,...]", ("group.share.partition.max.record.locks",),
     NOT_SERVED, _SHARE),
    ("share.record.lock.duration.ms", "int", OF_BROKER, "[1000,...]", ("group.share.record.lock.duration.ms",),
     NOT_SERVED, _SHARE),
    ("share.renew.acknowledge.enable", "boolean", "true", "", (), NOT_SERVED, _SHARE),
    ("share.session.timeout.ms", "int", OF_BROKER, "[1,...]", ("group.share.session.timeout.ms",), NOT_SERVED, _SHARE),
    ("streams.acceptable.recovery.lag", "long", OF_BROKER, "[0,...]", ("group.streams.acceptable.recovery.lag",),
     NOT_SERVED, _STREAMS),
    ("streams.assignment.interval.ms", "int", OF_BROKER, "[0,...]", ("group.streams.assignment.interval.ms",),
     NOT_SERVED, _STREAMS),
    ("streams.assignor.name", "string", OF_BROKER, "", ("group.streams.assignors",), NOT_SERVED, _STREAMS),
    ("streams.assignor.offload.enable", "boolean", OF_BROKER, "", ("group.streams.assignor.offload.enable",),
     NOT_SERVED, _STREAMS),
    ("streams.heartbeat.interval.ms", "int", OF_BROKER, "[1,...]", ("group.streams.heartbeat.interval.ms",),
     NOT_SERVED, _STREAMS),
    ("streams.initial.rebalance.delay.ms", "int", OF_BROKER, "[0,...]", ("group.streams.initial.rebalance.delay.ms",),
     NOT_SERVED, _STREAMS),
    ("streams.num.standby.replicas", "int", OF_BROKER, "[0,...]", ("group.streams.num.standby.replicas",),
     NOT_SERVED, _STREAMS),
    ("streams.num.warmup.replicas", "int", OF_BROKER, "[0,...]", ("group.streams.num.warmup.replicas",),
     NOT_SERVED, _STREAMS),
    ("streams.rack.aware.assignment.tags", "list", OF_BROKER, "", ("group.streams.rack.aware.assignment.tags",),
     NOT_SERVED, _STREAMS),
    ("streams.session.timeout.ms", "int", OF_BROKER, "[1,...]", ("group.streams.session.timeout.ms",),
     NOT_SERVED, _STREAMS),
    ("streams.task.offset.interval.ms", "int", OF_BROKER, "[1,...]", ("group.streams.task.offset.interval.ms",),
     NOT_SERVED, _STREAMS),
))

CLIENT_METRICS_ROWS: tuple[TopicSettingRow, ...] = (
    ("interval.ms", "int", "300000", "100 to 3600000", (), NOT_SERVED, _METRICS),
    ("match", "list", "", "selector=regular expression,...", (), NOT_SERVED, _METRICS),
    ("metrics", "list", "", "", (), NOT_SERVED, _METRICS),
)
# fmt: on
