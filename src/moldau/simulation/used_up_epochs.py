"""A log of transactions as after weeks of use: the producer id of a transactional id has few epochs left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moldau.core.transactions.records import encode_transaction_record
from moldau.core.transactions.state import MAX_PRODUCER_EPOCH, TransactionRecord
from moldau.errors import ERROR_CODES
from moldau.simulation.client import BrokerClient
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.transactional_client import TRANSACTION
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.records.builder import build_batch

if TYPE_CHECKING:
    from moldau.simulation.world import World

TIMEOUT_MS = 1_000
RETRY_S = 0.05


async def use_up_epochs(world: World, transactional_id: str) -> None:
    """Writes the state into the log of the running node. It takes effect at the next start."""
    random = world.random_of("used-up epochs")
    client = await BrokerClient.open(world.network, "setup", world.broker.host, random)
    client.versions[ApiKey.FIND_COORDINATOR] = 3
    await client.request(FindCoordinatorRequest(transactional_id, TRANSACTION))  # creates the internal topic
    while code := (await client.request(InitProducerIdRequest(transactional_id, TIMEOUT_MS))).error_code:
        if code not in (*world.retriable, ERROR_CODES["CONCURRENT_TRANSACTIONS"]):
            raise ViolationError("no unexpected refusals", f"InitProducerId got {code}")
        await asyncio.sleep(RETRY_S)
    client.close()
    node = world.broker.node
    if node is None:
        return
    shard = node.broker.coordination.transactions.shard_for(transactional_id)
    known = shard.host.state.transactions[transactional_id]
    left = random.randint(2, 4)
    record = TransactionRecord(transactional_id, replace(known, producer_epoch=MAX_PRODUCER_EPOCH - left))
    now_ms = world.broker.clock.now_ms()
    batch = build_batch([(*encode_transaction_record(record), now_ms, ())])
    shard.partition.append_own(bytearray(batch), now_ms)
