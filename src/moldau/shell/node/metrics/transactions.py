"""Transactions: read from the coordinators of this node, with pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import TRANSACTION_STATE_TOPIC
from moldau.core.transactions.state import TransactionState
from moldau.errors import KafkaError
from moldau.shell.node.metrics.exposition import Samples, labels_text

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker
    from moldau.shell.broker.transactions import TransactionShard

_MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"


async def add_transactions(broker: Broker, out: Samples) -> None:
    """Transactional ids by state, the age of the oldest open transaction, and markers that are late."""
    counts = dict.fromkeys(TransactionState, 0)
    begun_ms = now_ms = broker.clock.now_ms()
    waiting = unnoted = retries = 0
    if TRANSACTION_STATE_TOPIC in broker.image.topics_by_name:
        for shard in _shards(broker):
            if shard.loading is None and shard.host.stopped is None:
                for known in list(shard.host.state.transactions.values()):
                    counts[known.state] += 1
                    if known.state is TransactionState.ONGOING:
                        begun_ms = min(begun_ms, known.start_ms)
                    await broker.pauses.pause()
        markers = broker.transactions.markers
        unnoted, retries = markers.unnoted, markers.retries
        waiting = markers.in_flight - unnoted
    out.add(f"{_MARKERS}unknowndestinationqueuesize", waiting)
    out.add(f"{_MARKERS}logappendretryqueuesize", unnoted)
    for state in (*TransactionState,)[: TransactionState.DEAD]:
        out.add("moldau_transactional_ids", counts[state], labels_text(state=state.label))
    out.add("moldau_transactional_ids_per_coordinator_limit", broker.settings.moldau_transactional_ids)
    out.add("moldau_transaction_oldest_open_seconds", (now_ms - begun_ms) / 1000)
    out.add("moldau_transaction_marker_retries_total", retries)


def _shards(broker: Broker) -> list[TransactionShard]:
    try:
        return broker.transactions.all_shards()
    except KafkaError:
        return []
