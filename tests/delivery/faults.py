"""What must hold for each program, whatever is killed."""

from __future__ import annotations

from collections.abc import Iterable

from tests.delivery.counting import Outcome

NEVER_LOSE = (
    *("acks_all_two", "retries", "idempotence"),
    *("at_least_once", "transactional_copy", "idempotent_consumer", "offsets_in_database"),
)
NEVER_REPEAT = (
    *("acks_0", "acks_1", "acks_all", "acks_all_two", "idempotence"),
    *("at_most_once", "transactional_copy", "idempotent_consumer", "offsets_in_database"),
)


def broken_promises(outcomes: Iterable[Outcome]) -> list[str]:
    """Empty if all hold."""
    broken = []
    for outcome in outcomes:
        if outcome.lost and outcome.program in NEVER_LOSE:
            broken.append(f"{outcome.program} lost {outcome.lost}")
        if outcome.repeated and outcome.program in NEVER_REPEAT:
            broken.append(f"{outcome.program} repeated {outcome.repeated}")
        if not outcome.promised or not outcome.kills:
            broken.append(f"{outcome.program} has {outcome.promised} records and {outcome.kills} kills")
    return broken
