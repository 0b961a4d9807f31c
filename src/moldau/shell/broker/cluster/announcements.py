"""Logs committed metadata changes: created and deleted topics, and partitions whose leader or in-sync replicas changed.

The event log bounds the output: of many changes at once the first gets a line, and one more line names the others.
"""

from __future__ import annotations

from moldau.core.metadata.image import MetadataDelta
from moldau.shell.network.event_log import EventLog, escape
from moldau.types import counted


def announce(log: EventLog, delta: MetadataDelta) -> None:
    """Writes one line for each change. Not meant for the first delta after a start, which holds all topics."""
    for topic in delta.deleted_topics.values():
        log.info(
            "topic deleted",
            f"topic {escape(topic.name)} is deleted",
            about=escape(topic.name),
            topic=escape(topic.name),
        )
    for touched, indexes in delta.changed_partitions():
        if touched.topic_id in delta.deleted_topics:
            continue
        name = escape(touched.name)
        changed = [(index, touched.partitions[index]) for index in indexes if touched.partitions[index].partition_epoch]
        # look at all partitions only if the topic is new or has more of them
        if not changed and not any(each.partition_epoch for each in touched.partitions.values()):
            count = len(touched.partitions)
            message = f"topic {name} is created with {counted(count, 'partition')}"
            log.info("topic created", message, about=name, topic=name, partitions=count)
        for index, each in changed:
            log.info(
                "partition changed",
                f"{name}-{index}: leader {each.leader if each.leader >= 0 else 'none'}, "
                f"leader epoch {each.leader_epoch}, in sync {', '.join(map(str, each.isr)) or 'none'}",
                about=f"{name}-{index}",
                topic=name,
                partition=index,
                leader=each.leader,
                epoch=each.leader_epoch,
            )
