"""The transaction coordinators of this broker: one shard for each partition of `__transaction_state`.

When a record with a decision (a Prepare state) is committed, the partitions get their markers. When all have them, the
transaction is complete. The client gets its answer after the decision; on a single node, after the markers. After a
load, decided transactions end in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, cast

from msgspec.structs import replace

from moldau.core.config.topic_settings import TRANSACTION_STATE_TOPIC
from moldau.core.coordination.machine import Counts
from moldau.core.coordination.refusals import append_error_code
from moldau.core.metadata.features import TRANSACTION_VERSION
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.replication.partition import Partition
from moldau.core.transactions.machine import TransactionMachine
from moldau.core.transactions.records import decode_transaction_record, encode_transaction_record
from moldau.core.transactions.requests import (
    AddOrVerify,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    TransactionAnswer,
    TransactionRequest,
    TransactionResponse,
    VerifiedPartitions,
    fault_of,
)
from moldau.core.transactions.state import PREPARED, TransactionMetadata, TransactionRecord, TransactionsState
from moldau.errors import ERROR_CODES, InvariantError, KafkaError, MoldauError, kafka_error
from moldau.shell.broker.cluster.topic_creation import ProducerIds
from moldau.shell.broker.coordination.shards import Shard, ShardLog, Shards
from moldau.shell.broker.coordination.times import Verifications
from moldau.shell.broker.coordination.transaction_markers import Markers
from moldau.shell.broker.coordination.transaction_port import TransactionPort
from moldau.shell.broker.logs.flusher import Flusher
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions
from moldau.telemetry import BOUND_REACHED
from moldau.types import TopicPartition

POLICY_VIOLATION = ERROR_CODES["POLICY_VIOLATION"]


class TransactionLog(ShardLog[TransactionRecord]):
    """One partition of `__transaction_state`."""

    def __init__(
        self,
        node: OwnNode,
        partition: Partition,
        flusher: Flusher,
        high_watermark_moved: Callable[[Partition], None],
    ) -> None:
        codec = encode_transaction_record, decode_transaction_record
        super().__init__(node, partition, flusher, high_watermark_moved, "transactions", *codec)
        self.decided: deque[tuple[int, str]] = deque()
        """(end offset of the record, transactional id) of decisions that may not be committed yet."""

    def applied(self, records: tuple[TransactionRecord, ...], counts: Counts) -> None:
        """Notes the transactions whose markers are due once the records are committed."""
        for record in records:
            if record.metadata is not None and record.metadata.state in PREPARED:
                self.decided.append((self.end_offset, record.transactional_id))
        super().applied(records, counts)


class TransactionShard(Shard[TransactionsState, TransactionRequest, TransactionResponse, TransactionRecord]):
    """One partition of `__transaction_state` with its machine."""

    log: TransactionLog

    def __init__(self, node: OwnNode, log: TransactionLog, markers: Markers) -> None:
        super().__init__(node, log, TransactionMachine(node.settings.view))
        self._decided = log.decided
        self._markers = markers

    def begin(self, image: MetadataImage) -> None:
        """Ends the transactions that were decided before the load."""
        super().begin(image)
        if self.host.stopped is None:
            for name, metadata in self.host.state.transactions.items():
                if metadata.state in PREPARED:
                    self._decided.append((self.log.end_offset, name))
            self._end_committed()

    def committed(self, end_offset: int) -> None:
        super().committed(end_offset)
        if self._decided:
            self._end_committed()

    def _end_committed(self) -> None:
        while self._decided and self._decided[0][0] <= self.host.committed_offset:
            self._markers.add(_Ending(self, self._decided.popleft()[1]))


class _Ending:
    """See EndingTransaction."""

    def __init__(self, shard: TransactionShard, transactional_id: str) -> None:
        self._shard = shard
        self.transactional_id = transactional_id

    @property
    def is_here(self) -> bool:
        return self._shard.closed is None and self._shard.host.stopped is None

    @property
    def coordinator_epoch(self) -> int:
        return self._shard.partition.leader_epoch

    def metadata(self) -> TransactionMetadata | None:
        known = self._shard.host.state.transactions.get(self.transactional_id)
        return known if known is not None and known.state in PREPARED else None

    async def report(self, request: MarkersWritten) -> int:
        return cast(TransactionAnswer, await ask(self._shard, request)).error_code


class TransactionCoordinators(Shards[TransactionShard]):
    """All shards of this broker."""

    def __init__(
        self,
        node: OwnNode,
        partitions: Partitions,
        flusher: Flusher,
        high_watermark_moved: Callable[[Partition], None],
        create_topic: Callable[[str], Coroutine[Any, Any, None]],
        producer_ids: ProducerIds,
        own_port: TransactionPort,
        port: TransactionPort,
    ) -> None:
        """`own_port` reaches this broker alone: requests of other coordinators go no further."""

        def make(partition: Partition) -> TransactionShard:
            log = TransactionLog(node, partition, flusher, high_watermark_moved)
            return TransactionShard(node, log, self.markers)

        super().__init__(node, partitions, TRANSACTION_STATE_TOPIC, create_topic, make)
        self.own_port = own_port
        self.verifications = Verifications()
        self._port = port
        self.markers = Markers(node, port, self._has_partition)
        self._producer_ids = producer_ids

    def _has_partition(self, place: TopicPartition) -> bool:
        topic = self._partitions.image.topics_by_name.get(place.topic)
        return topic is not None and place.partition in topic.partitions

    async def ask(
        self, transactional_id: str, request: TransactionRequest, shard: TransactionShard | None = None
    ) -> TransactionResponse:
        """The answer of the id's coordinator, or of `shard`. Decides in the first step, in the order of the calls,
        unless the shard is loading. Never raises KafkaError: returns a TransactionAnswer with the code."""
        code = fault_of(request, self._node.settings.view.transaction_max_timeout_ms)
        if code:
            return TransactionAnswer(code)
        try:
            shard = shard or self.shard_for(transactional_id)
        except KafkaError as error:
            return TransactionAnswer(append_error_code(error))
        return await ask(shard, request)

    async def change(self, request: InitProducerId | EndTransaction) -> TransactionAnswer:
        """As `ask`, with a new producer id if the decision needs one. On a single node, waits until every partition of
        an ending transaction was tried: the client's next request sees the end."""
        answer = cast(TransactionAnswer, await self.ask(request.transactional_id, request))
        while answer.needs_producer_id:
            try:
                producer_id = self._producer_ids.take()
                if producer_id is None:
                    producer_id = await self._producer_ids.allocate()
            except KafkaError as error:
                return TransactionAnswer(error.code)
            with_id = replace(request, new_producer_id=producer_id)
            answer = cast(TransactionAnswer, await self.ask(request.transactional_id, with_id))
        if answer.error_code == POLICY_VIOLATION:
            self._node.telemetry.count(BOUND_REACHED, "moldau.transactional.ids")
        if len(self._partitions.image.brokers) == 1:
            await self.markers.wait_tried(request.transactional_id)
        return answer

    async def add_partitions(self, request: AddOrVerify) -> dict[TopicPartition, int]:
        """An error code for each partition: 0 if it has joined the producer's open transaction or, with
        VerifyPartitions, if it is in it. Ends in its first step, unless the coordinator is loading or must wait for a
        flush."""
        answer = await self.ask(request.transactional_id, request)
        if isinstance(answer, VerifiedPartitions):
            return dict(zip(request.partitions, answer.error_codes, strict=True))
        return dict.fromkeys(request.partitions, cast(TransactionAnswer, answer).error_code)

    async def ask_coordinator(self, request: AddOrVerify) -> dict[TopicPartition, int]:
        """As `add_partitions`, for leaders here: asks the broker that coordinates the id."""
        began_ms = self._node.clock.monotonic_ms()
        codes = await self._port.add_partitions(request)
        self.verifications.add(codes.values(), began_ms, self._node.clock.monotonic_ms())
        return codes

    def loaded_states(self) -> Iterator[tuple[int, Mapping[str, TransactionMetadata]]]:
        """The transactions of each loaded coordinator, by partition of `__transaction_state` and by transactional
        id."""
        for index, shard in self._shards.items():
            if shard.loading is None and shard.closed is None:
                yield index, shard.host.state.transactions

    # -- start, and changes of metadata

    def load(self) -> None:
        """Starts to load every shard here: decided transactions must end, and open ones expire also if no client
        asks."""
        self.all_shards()

    def metadata_changed(self, delta: MetadataDelta) -> None:
        """Follows the deletion of the topic, changes of its leaders and of the level of `transaction.version`. Where
        this broker leads now, it ends the transactions that the earlier coordinator decided."""
        self.end_leaderships(delta)
        self.begin_leaderships(delta)
        if any(topic.name == self.topic for topic in delta.deleted_topics.values()):
            self.close(kafka_error("NOT_COORDINATOR"))
        elif TRANSACTION_VERSION in delta.features:
            for shard in list(self._shards.values()):
                shard.metadata_changed(self._partitions.image, delta)


async def ask(shard: TransactionShard, request: TransactionRequest) -> TransactionResponse:
    """The answer of `shard`; a TransactionAnswer with the code for an error."""
    try:
        return await shard.ask(request)
    except InvariantError:
        raise
    except MoldauError as error:
        return TransactionAnswer(append_error_code(error))
