"""What tests do with a log of a partition."""

from __future__ import annotations

from moldau.core.log.log import Log
from moldau.core.log.moving import FutureLog


def flush(log: Log | FutureLog, now_ms: int) -> None:
    """Makes everything that is in the log durable, as the flusher of a broker does."""
    plan = log.unflushed()
    if plan is not None:
        plan.run()
        log.mark_flushed(plan, now_ms)
