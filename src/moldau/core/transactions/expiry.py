"""Forgets transactional ids that are unused for `transactional.id.expiration.ms`."""

from __future__ import annotations

from moldau.core.transactions.state import EXPIRING, TransactionsState
from moldau.types import Pausing

MAX_BATCH_IDS = 1_000
MAX_BATCH_BYTES = 1 << 18
"""The most bytes of one decision, which is one batch. The rest follows in the next decision."""


def expired_ids(state: TransactionsState, latest_ms: int) -> Pausing[tuple[list[str], bool]]:
    """The transactional ids whose last change was at `latest_ms` or before, and whether these are all. An id with an
    open or ending transaction stays."""
    found: list[str] = []
    size = 0
    for name, known in state.transactions.items():
        if known.last_update_ms <= latest_ms and known.state in EXPIRING:
            size += len(name.encode("utf-8", "surrogatepass"))
            if found and (len(found) == MAX_BATCH_IDS or size > MAX_BATCH_BYTES):
                return found, False
            found.append(name)
        yield
    return found, True
