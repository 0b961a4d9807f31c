"""Every group setting (resource type 32) and client metrics setting (16) of Kafka 4.3, one row each.

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

# fmt: off
GROUP_SETTING_ROWS: tuple[TopicSettingRow, ...] = with_defaults_of_broker((
    ("consumer.assignment.interval.ms", "int", OF_BROKER, "[0,...]", ("group.consumer.assignment.interval.ms",),
     NOT_SERVED, _CONSUMER),
    ("consumer.heartbeat.interval.ms", "int", OF_BROKER, "[1,...]", ("group.consumer.heartbeat.interval.ms",),
     NOT_SERVED, _CONSUMER),
    ("consumer.session.timeout.ms", "int", OF_BROKER, "[1,...]", ("group.consumer.session.timeout.ms",),
     NOT_SERVED, _CONSUMER),
    ("share.assignment.interval.ms", "int", OF_BROKER, "[0,...]", ("group.share.assignment.interval.ms",),
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
    ("streams.assignment.interval.ms", "int", OF_BROKER, "[0,...]", ("group.streams.assignment.interval.ms",),
     NOT_SERVED, _STREAMS),
    ("streams.heartbeat.interval.ms", "int", OF_BROKER, "[1,...]", ("group.streams.heartbeat.interval.ms",),
     NOT_SERVED, _STREAMS),
    ("streams.initial.rebalance.delay.ms", "int", OF_BROKER, "[0,...]", ("group.streams.initial.rebalance.delay.ms",),
     NOT_SERVED, _STREAMS),
    ("streams.num.standby.replicas", "int", OF_BROKER, "[0,...]", ("group.streams.num.standby.replicas",),
     NOT_SERVED, _STREAMS),
    ("streams.session.timeout.ms", "int", OF_BROKER, "[1,...]", ("group.streams.session.timeout.ms",),
     NOT_SERVED, _STREAMS),
))

CLIENT_METRICS_ROWS: tuple[TopicSettingRow, ...] = (
    ("interval.ms", "int", "300000", "100 to 3600000", (), NOT_SERVED, _METRICS),
    ("match", "list", "", "selector=regular expression,...", (), NOT_SERVED, _METRICS),
    ("metrics", "list", "", "", (), NOT_SERVED, _METRICS),
)
# fmt: on
