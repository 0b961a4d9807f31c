"""Transactions: read from the coordinators of this node, with pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.core.config.topic_settings import TRANSACTION_STATE_TOPIC
from moldau.core.transactions.state import TransactionState
from moldau.transport.exposition import Samples, labels_text

if TYPE_CHECKING:
    from moldau.shell.broker.coordination.shards import Shards
    from moldau.shell.broker.role import Broker

_VERIFICATIONS = "kafka_server_addpartitionstotxnmanager_"
_MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"


async def add_transactions(broker: Broker, out: Samples) -> None:
    """Adds transactional ids by state, the age of the oldest open transaction and late markers; also how long
    coordinators took to load, and their answers about partitions."""
    counts = dict.fromkeys(TransactionState, 0)
    begun_ms = now_ms = broker.own_node.clock.now_ms()
    waiting = unnoted = retries = 0
    if TRANSACTION_STATE_TOPIC in broker.image.topics_by_name:
        for shard in broker.coordination.transactions.all_shards():
            if shard.loading is None and shard.host.stopped is None:
                for known in list(shard.host.state.transactions.values()):
                    counts[known.state] += 1
                    if known.state is TransactionState.ONGOING:
                        begun_ms = min(begun_ms, known.start_ms)
                    await broker.own_node.pauses.pause()
        markers = broker.coordination.transactions.markers
        unnoted, retries = markers.unnoted, markers.retries
        waiting = markers.in_flight - unnoted
    out.add(f"{_MARKERS}unknowndestinationqueuesize", waiting)
    out.add(f"{_MARKERS}logappendretryqueuesize", unnoted)
    for state in (*TransactionState,)[: TransactionState.DEAD]:
        out.add("moldau_transactional_ids", counts[state], labels_text(state=state.label))
    out.add("moldau_transactional_ids_per_coordinator_limit", broker.settings.moldau_transactional_ids)
    add_load_times(broker.coordination.transactions, "kafka_server_transaction_coordinator_metrics_", out)
    verifications = broker.coordination.transactions.verifications
    out.add(f"{_VERIFICATIONS}verificationfailurerate_count", verifications.failures)
    out.add_summary(f"{_VERIFICATIONS}verificationtimems", verifications.times.quantiles(1000), verifications.count)
    out.add("moldau_transaction_oldest_open_seconds", (now_ms - begun_ms) / 1000)
    out.add("moldau_transaction_marker_retries_total", retries)


def add_load_times(shards: Shards[Any], prefix: str, out: Samples) -> None:
    """Adds how long the coordinators of one topic took to load."""
    average_ms, longest_ms = shards.recent_load_times()
    out.add(f"{prefix}partition_load_time_avg", average_ms)
    out.add(f"{prefix}partition_load_time_max", longest_ms)
