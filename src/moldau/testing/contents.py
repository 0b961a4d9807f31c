"""Topics, records and groups of a cluster, without a client. Calls the broker that can answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from moldau.errors import kafka_error
from moldau.testing import inside
from moldau.testing.inside import GroupView, Record
from moldau.testing.members import Members
from moldau.testing.tracebacks import hides
from moldau.testing.writing import Planned

__tracebackhide__ = hides


class Contents:
    """Topics, records and groups in the brokers of `members`."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Creates the topic, and returns when every running broker knows it. Raises KafkaError."""
        self._members.ask(lambda broker: inside.create_topic(broker, name, partitions, config))
        self._members.wait_known(name, is_there=True)

    def delete_topic(self, name: str) -> None:
        """Deletes the topic, and returns when no running broker knows it. Raises KafkaError."""
        self._members.ask(lambda broker: inside.delete_topic(broker, name))
        self._members.wait_known(name, is_there=False)

    def partitions(self, topic: str, wanted: int | None = None, *, is_made: bool = False) -> list[int]:
        """The indexes of all partitions, or only `wanted`. `is_made` creates a missing topic if the broker creates
        topics automatically. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        find = inside.made_indexes if is_made else inside.partition_indexes
        found = self._members.ask(lambda broker: find(broker, topic))
        if wanted is not None and wanted not in found:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"topic {topic!r} has no partition {wanted}")
        return found if wanted is None else [wanted]

    def write(self, topic: str, planned: Planned) -> list[Record]:
        """Appends one batch to each partition in turn. Returns the records in the order of the values."""
        written: dict[int, Sequence[Record]] = {}
        for index, records in planned.batches.items():
            append = partial(inside.append_records, topic=topic, index=index, records=records)
            written[index] = self._members.ask_leader(topic, index, append)
        return planned.in_order(written)

    def sizes(self, topic: str, partition: int | None = None, *, is_stable: bool = False) -> dict[int, tuple[int, int]]:
        """The first offset and the high watermark of each partition; with `is_stable` the last stable offset
        instead."""
        return {
            index: self._members.ask_leader(
                topic, index, partial(inside.partition_size, topic=topic, index=index, is_stable=is_stable)
            )
            for index in self.partitions(topic, partition)
        }

    def records(self, topic: str, partition: int | None, *, is_stable: bool) -> Iterator[Record]:
        """The present records. The call itself raises UNKNOWN_TOPIC_OR_PARTITION."""
        sizes = self.sizes(topic, partition, is_stable=is_stable)
        return inside.iterate_records(self._members.ask_leader, topic, sizes, is_stable=is_stable)

    def group(self, group_id: str) -> GroupView:
        """State, members and lag of the group. Raises GROUP_ID_NOT_FOUND."""
        facts = self._members.ask_coordinator(lambda broker: inside.group_facts(broker, group_id))
        return inside.view_of(facts, {topic: self.sizes(topic) for topic in facts.topics})
