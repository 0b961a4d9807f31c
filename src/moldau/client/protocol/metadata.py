"""The client's metadata of a cluster: broker addresses, which of them have answered, and partition leaders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from moldau.client.protocol.access import Address
from moldau.client.protocol.retries import NO_SUCH_TOPIC
from moldau.errors import kafka_error
from moldau.types import ZERO_UUID, TopicPartition, Uuid
from moldau.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

_MAX_REACHED = 10_000
_ERRORS_UNTRIED = 20
"""A pause of up to a second follows each error, and a machine that is down costs ten seconds for each try."""


class PartitionLeader(msgspec.Struct, frozen=True):
    """The leader of a partition; `leader_id` is -1 without one."""

    leader_id: int
    leader_epoch: int


class TopicMetadata(msgspec.Struct, frozen=True):
    """A topic as a broker describes it. `topic_id` is zero if the broker is too old for topic ids."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: dict[int, PartitionLeader]


class ClusterMetadata:
    """The metadata of one cluster. `had_contact`: a broker has answered another client, whose work this one
    continues."""

    def __init__(self, bootstrap: Sequence[Address], *, had_contact: bool = False) -> None:
        self._bootstrap = list(bootstrap)
        self._had_contact = had_contact
        self._reached: dict[Address, bool] = {}
        self._addresses: dict[int, Address] = {}
        self._passed_over: Address | None = None
        self._unreached: dict[Address, int] = {}
        """Addresses that the last try could not connect to, with the number of further errors for which they are tried
        last."""
        self._topics: dict[str, TopicMetadata] = {}
        self._forgotten: dict[str, None] = {}
        """Topics to fetch again. Their leader epochs are kept to recognize older responses."""

    # --- brokers ---

    @property
    def has_contact(self) -> bool:
        """Whether any broker of the cluster has answered."""
        return self._had_contact or bool(self._reached)

    def note_contact(self, address: Address) -> None:
        """Marks this address as having answered. Losing it later is no longer a first contact."""
        self._unreached.pop(address, None)
        if len(self._reached) < _MAX_REACHED:
            self._reached[address] = True

    def note_failure(self, address: Address) -> None:
        """Marks this address as unreachable, so that others are tried before it for a while."""
        if len(self._unreached) < _MAX_REACHED:
            self._unreached[address] = _ERRORS_UNTRIED

    def has_reached(self, address: Address) -> bool:
        """Whether this address has ever answered."""
        return address in self._reached

    def connect_timeout_ms(self, connect_timeout_ms: int, first_contact_timeout_ms: int) -> int:
        """The timeout of one attempt. Before any contact, all bootstrap servers share the time for the first
        contact."""
        if self.has_contact:
            return connect_timeout_ms
        return max(1, min(connect_timeout_ms, first_contact_timeout_ms // len(self._bootstrap)))

    def candidates(self) -> list[Address]:
        """The addresses to try in order, for a request that any broker answers. Starts with the bootstrap servers, or
        after the address that was passed over. Unreachable addresses come last, because a machine that is down costs
        the whole connect timeout."""
        found = list(dict.fromkeys((*self._bootstrap, *self._addresses.values())))
        first = found.index(self._passed_over) + 1 if self._passed_over in found else 0
        return sorted((*found[first:], *found[:first]), key=lambda address: address in self._unreached)

    def pass_over(self, address: Address) -> bool:
        """Makes `candidates` list this address after all other reachable ones, because using its responses failed.
        False if there is no other address."""
        self._passed_over = address
        # an unreachable broker may be back by now, with newer metadata than the reachable ones
        self._unreached = {each: errors - 1 for each, errors in self._unreached.items() if errors > 1}
        return self.candidates() != [address]

    def address_of(self, broker_id: int) -> Address:
        """The address of the broker. Raises LEADER_NOT_AVAILABLE for an unknown broker, such as -1."""
        address = self._addresses.get(broker_id)
        if address is None:
            raise kafka_error("LEADER_NOT_AVAILABLE", f"broker {broker_id} is not known")
        return address

    def note_address(self, broker_id: int, address: Address) -> bool:
        """Stores the address of a broker. True if it replaces a different one."""
        before = self._addresses.get(broker_id)
        self._addresses[broker_id] = address
        return before not in (None, address)

    # --- topics ---

    @staticmethod
    def request(topics: Iterable[str] | None, *, allow_auto_create: bool = False) -> MetadataRequest:
        """Requests these topics (None: all). With `allow_auto_create`, a cluster with automatic creation creates
        missing ones."""
        names = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        return MetadataRequest(topics=names, allow_auto_topic_creation=allow_auto_create)

    def take_topics(self, response: MetadataResponse) -> dict[str, TopicMetadata]:
        """Stores and returns the topics of a response. Leaves out and forgets topics that do not exist.

        Raises KafkaError for any other error of a topic. Keeps the known leader of a partition if the response has a
        lower leader epoch, because the metadata of that broker is older (KIP-320).
        """
        found: dict[str, TopicMetadata] = {}
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code in NO_SUCH_TOPIC:
                self._topics.pop(name, None)
                self._forgotten.pop(name, None)
                continue
            if topic.error_code and not topic.partitions:
                raise kafka_error(topic.error_code, f"topic {name!r}")
            topic_id = topic.topic_id or ZERO_UUID
            known = self._leaders_of(name, topic_id)
            partitions = {
                row.partition_index: _newer(row, known.get(row.partition_index))
                for row in sorted(topic.partitions, key=lambda row: row.partition_index)
            }
            found[name] = TopicMetadata(name, topic_id, topic.is_internal, partitions)
        self._topics.update(found)
        for name in found:
            self._forgotten.pop(name, None)
        return found

    def _leaders_of(self, name: str, topic_id: Uuid) -> dict[int, PartitionLeader]:
        """The known leaders of this topic, by id: a new topic of the same name starts with the first epoch again.
        Without ids (before Metadata v10) the two cannot be distinguished."""
        known = self._topics.get(name)
        return known.partitions if known is not None and known.topic_id == topic_id != ZERO_UUID else {}

    def topic(self, name: str) -> TopicMetadata | None:
        """The stored metadata of the topic; None if it must be fetched."""
        return None if name in self._forgotten else self._topics.get(name)

    def forget(self, topic: str) -> None:
        """Makes the topic unknown, after a response that the metadata is old."""
        if topic in self._topics:
            self._forgotten[topic] = None

    def leader_of(self, topic: TopicMetadata, topic_partition: TopicPartition) -> PartitionLeader:
        """The leader of the partition. Raises UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE while there is none
        (both retriable)."""
        leader = topic.partitions.get(topic_partition.partition)
        if leader is None:
            self.forget(topic.name)
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no partition {topic_partition}")
        if leader.leader_id < 0:
            self.forget(topic.name)
            raise kafka_error("LEADER_NOT_AVAILABLE", f"{topic_partition} has no leader")
        return leader


def _newer(row: MetadataResponsePartition, known: PartitionLeader | None) -> PartitionLeader:
    if known is not None and known.leader_epoch > row.leader_epoch:
        return known
    return PartitionLeader(row.leader_id, row.leader_epoch)
