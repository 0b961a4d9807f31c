"""What the metadata log decided, as lines of the node's log: topics that come and go, partitions that changed hands.

Bounded by the event log: of many at once the first has a line of its own, the others are named in one line.
"""

from __future__ import annotations

from moldau.core.metadata.image import MetadataDelta
from moldau.shell.network.event_log import EventLog, escape
from moldau.types import counted


def announce(log: EventLog, delta: MetadataDelta) -> None:
    """Not for the delta of a start, which has all topics."""
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
        # all its partitions are looked at only where the topic is new or has got more of them
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
