"""Every topic setting of Kafka 4.4, one row each.

A row: (name, type, default, valid values, broker settings it falls back to, served, note), see broker_setting_rows.py.
A setting that falls back to the broker has the default of the broker setting.
"""

from __future__ import annotations

from moldau.core.config.broker_settings import MAX_DECOMPRESSED_NOTE
from moldau.core.config.defaults_of_broker import OF_BROKER, with_defaults_of_broker
from moldau.core.config.setting import HONOURED, IGNORED, NOT_SERVED, TopicSettingRow

_REMOTE = "no remote storage: as in Apache Kafka without remote.log.storage.system.enable"

# fmt: off
TOPIC_SETTING_ROWS: tuple[TopicSettingRow, ...] = with_defaults_of_broker((
    ("cleanup.policy", "list", OF_BROKER, "[compact, delete]", ("log.cleanup.policy",),
     HONOURED, ""),
    ("compression.gzip.level", "int", OF_BROKER, "[1,...,9] or -1", ("compression.gzip.level",), HONOURED, ""),
    ("compression.lz4.level", "int", OF_BROKER, "[1,...,17]", ("compression.lz4.level",), HONOURED, ""),
    ("compression.type", "string", OF_BROKER, "[uncompressed, zstd, lz4, snappy, gzip, producer]",
     ("compression.type",), HONOURED, ""),
    ("compression.zstd.level", "int", OF_BROKER, "[-131072,...,22]", ("compression.zstd.level",), HONOURED, ""),
    ("delete.retention.ms", "long", OF_BROKER, "[0,...]", ("log.cleaner.delete.retention.ms",), HONOURED, ""),
    ("errors.deadletterqueue.group.enable", "boolean", "false", "", (),
     NOT_SERVED, "stored and described; it acts with share groups"),
    ("file.delete.delay.ms", "long", OF_BROKER, "[0,...]", ("log.segment.delete.delay.ms",), HONOURED, ""),
    ("flush.messages", "long", OF_BROKER, "[1,...]", ("log.flush.interval.messages",), HONOURED, ""),
    ("flush.ms", "long", OF_BROKER, "[0,...]", ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
     HONOURED, ""),
    ("follower.replication.throttled.replicas", "list", "", "[partitionId]:[brokerId],[partitionId]:[brokerId],...", (),
     HONOURED, ""),
    ("index.interval.bytes", "int", OF_BROKER, "[0,...]", ("log.index.interval.bytes",), HONOURED, ""),
    ("internal.segment.bytes", "int", None, "", (), HONOURED, "hidden; overrides segment.bytes in tests"),
    ("leader.replication.throttled.replicas", "list", "", "[partitionId]:[brokerId],[partitionId]:[brokerId],...", (),
     HONOURED, ""),
    ("local.retention.bytes", "long", OF_BROKER, "[-2,...]", ("log.local.retention.bytes",), IGNORED, _REMOTE),
    ("local.retention.ms", "long", OF_BROKER, "[-2,...]", ("log.local.retention.ms",), IGNORED, _REMOTE),
    ("max.compaction.lag.ms", "long", OF_BROKER, "[1,...]", ("log.cleaner.max.compaction.lag.ms",),
     HONOURED, ""),
    ("max.decompressed.message.bytes", "int", OF_BROKER, "[1,...,2147483639]", ("max.decompressed.message.bytes",),
     HONOURED, MAX_DECOMPRESSED_NOTE),
    ("max.message.bytes", "int", OF_BROKER, "[0,...]", ("message.max.bytes",), HONOURED, ""),
    ("message.timestamp.after.max.ms", "long", OF_BROKER, "[0,...]", ("log.message.timestamp.after.max.ms",),
     HONOURED, ""),
    ("message.timestamp.before.max.ms", "long", OF_BROKER, "[0,...]",
     ("log.message.timestamp.before.max.ms",), HONOURED, ""),
    ("message.timestamp.type", "string", OF_BROKER, "[CreateTime, LogAppendTime]", ("log.message.timestamp.type",),
     HONOURED, ""),
    ("min.cleanable.dirty.ratio", "double", OF_BROKER, "[0,...,1]", ("log.cleaner.min.cleanable.ratio",), HONOURED, ""),
    ("min.compaction.lag.ms", "long", OF_BROKER, "[0,...]", ("log.cleaner.min.compaction.lag.ms",), HONOURED, ""),
    ("min.insync.replicas", "int", OF_BROKER, "[1,...]", ("min.insync.replicas",),
     HONOURED, "capped by the replication factor, as in Kafka"),
    ("preallocate", "boolean", OF_BROKER, "", ("log.preallocate",), IGNORED, "a hint about speed only"),
    ("remote.copy.lag.bytes", "long", OF_BROKER, "[-1,...]", ("log.remote.copy.lag.bytes",), IGNORED, _REMOTE),
    ("remote.copy.lag.ms", "long", OF_BROKER, "[-1,...]", ("log.remote.copy.lag.ms",), IGNORED, _REMOTE),
    ("remote.log.copy.disable", "boolean", "false", "", (), IGNORED, _REMOTE),
    ("remote.log.delete.on.disable", "boolean", "false", "", (), IGNORED, _REMOTE),
    ("remote.storage.enable", "boolean", "false", "", (),
     IGNORED, "true is refused, as in Apache Kafka without remote.log.storage.system.enable"),
    ("retention.bytes", "long", OF_BROKER, "", ("log.retention.bytes",), HONOURED, ""),
    ("retention.ms", "long", OF_BROKER, "[-1,...]",
     ("log.retention.ms", "log.retention.minutes", "log.retention.hours"), HONOURED, ""),
    ("segment.bytes", "int", OF_BROKER, "[1048576,...]", ("log.segment.bytes",), HONOURED, ""),
    ("segment.index.bytes", "int", OF_BROKER, "[4,...]", ("log.index.size.max.bytes",), HONOURED, ""),
    ("segment.jitter.ms", "long", OF_BROKER, "[0,...]", ("log.roll.jitter.ms", "log.roll.jitter.hours"), HONOURED, ""),
    ("segment.ms", "long", OF_BROKER, "[1,...]", ("log.roll.ms", "log.roll.hours"), HONOURED, ""),
    ("unclean.leader.election.enable", "boolean", OF_BROKER, "", ("unclean.leader.election.enable",),
     HONOURED, ""),
))
# fmt: on
