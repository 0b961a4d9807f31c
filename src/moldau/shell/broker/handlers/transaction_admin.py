"""DescribeTransactions and ListTransactions: requests of administrators about transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from moldau.core.transactions.pattern import pattern_for
from moldau.core.transactions.requests import (
    DescribeTransaction,
    ListedTransactions,
    ListTransactions,
    TransactionAnswer,
)
from moldau.core.transactions.state import STATES_BY_LABEL, TransactionState
from moldau.errors import ERROR_CODES
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from moldau.types import distinct
from moldau.wire.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

COORDINATOR_LOAD_IN_PROGRESS = ERROR_CODES["COORDINATOR_LOAD_IN_PROGRESS"]
INVALID_REGULAR_EXPRESSION = ERROR_CODES["INVALID_REGULAR_EXPRESSION"]
ONE_SHARD = 10
"""Asking a shard without transactions takes as long as listing this many transactions."""


async def act_describe_transactions(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Versions 0-0. All of KIP-664.

    Ignored on purpose: a transactional id that is named twice is described once.
    """
    throttle_time_ms = context.throttle()
    described = []
    for name in distinct(request.transactional_ids):
        one = await _describe(broker, context, name)
        described.append(one)
        await context.pause(1 + sum(len(topic.partitions) for topic in one.topics))
    return DescribeTransactionsResponse(throttle_time_ms, tuple(described))


async def _describe(broker: Broker, context: RequestContext, transactional_id: str) -> DescribedTransaction:
    """Describes one transaction, with the topics that the client may describe."""
    if not context.authorize(DESCRIBE_TRANSACTIONAL_ID, transactional_id):
        return DescribedTransaction(DESCRIBE_TRANSACTIONAL_ID.refusal, transactional_id)
    asked = DescribeTransaction(transactional_id, broker.coordination.transactions.markers.unmarked(transactional_id))
    answer = await context.wait(broker.coordination.transactions.ask(transactional_id, asked))
    if isinstance(answer, TransactionAnswer):
        return DescribedTransaction(answer.error_code, transactional_id)
    described = cast(DescribedTransaction, answer)
    topics = tuple(topic for topic in described.topics if context.authorize(DESCRIBE_TOPIC, topic.topic))
    return described if topics == described.topics else msgspec.structs.replace(described, topics=topics)


async def act_list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """Versions 0-2. KIP-664; v1 filter by duration (KIP-994), v2 by a pattern of the id (KIP-1152).

    The list joins all shards of this broker that serve. A pattern has the syntax of RE2 (core/transactions/pattern.py).
    Ignored on purpose: nothing.
    """
    throttle_time_ms = context.throttle()
    states, unknown = await _states(context, request.state_filters)
    pattern = request.transactional_id_pattern or None
    if pattern is not None:
        try:
            pattern_for(pattern)
        except ValueError:
            return ListTransactionsResponse(throttle_time_ms, INVALID_REGULAR_EXPRESSION)
    ids = request.producer_id_filters or None
    asked = ListTransactions(states, ids, request.duration_filter, pattern)
    found: list[ListedTransaction] = []
    for shard in broker.coordination.transactions.all_shards():
        if shard.loading is not None:
            return ListTransactionsResponse(throttle_time_ms, COORDINATOR_LOAD_IN_PROGRESS)
        answer = await context.wait(broker.coordination.transactions.ask("", asked, shard))
        if isinstance(answer, TransactionAnswer):
            if shard.is_left_out_of_lists:
                continue
            return ListTransactionsResponse(throttle_time_ms, answer.error_code)
        part = cast(ListedTransactions, answer).transactions
        found += [one for one in part if context.authorize(DESCRIBE_TRANSACTIONAL_ID, one.transactional_id)]
        await context.pause(len(part) + ONE_SHARD)
    return ListTransactionsResponse(throttle_time_ms, 0, unknown, tuple(found))


async def _states(
    context: RequestContext, names: tuple[str, ...]
) -> tuple[tuple[TransactionState, ...] | None, tuple[str, ...]]:
    """The states asked for (None: all), and the names of unknown states."""
    known: dict[TransactionState, None] = {}
    unknown: dict[str, None] = {}
    for name in names:
        state = STATES_BY_LABEL.get(name)
        if state is None:
            unknown[name] = None
        else:
            known[state] = None
        await context.pause()
    return (tuple(known) if names else None), tuple(unknown)
