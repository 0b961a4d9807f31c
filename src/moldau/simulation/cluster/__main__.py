"""`python -m moldau.simulation.cluster --seed 7` prints one seed step by step; `--seeds 1..300` runs many and counts.

The exit code is 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial

from moldau.simulation.cluster.faults import MEANS_MS
from moldau.simulation.cluster.run import Outcome, run_seed
from moldau.simulation.cluster.watch import ClusterEvent
from moldau.simulation.run import run_and_freeze
from moldau.simulation.seeds import run_seeds, seed_parser, too_seldom
from moldau.simulation.transaction_events import TransactionEvent

TROUBLES_OF_1000 = 100
EVENTS_OF_1000 = 20
"""The required number of each trouble and each event in 1,000 seeds; proportionally less in fewer seeds."""

SEEN_BY_CLIENTS = (
    TransactionEvent.COMMITTED_V1,
    TransactionEvent.COMMITTED_V2,
    TransactionEvent.FENCED,
    TransactionEvent.LATE_END_REFUSED,
    TransactionEvent.END_REPEATED,
    TransactionEvent.ABORTED_SKIPPED,
)


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds on the command line. Returns the exit code."""
    parser = seed_parser("moldau.simulation.cluster", __doc__)
    parser.add_argument("--coverage", action="store_true", help="fail where trouble or events came too seldom")
    options = parser.parse_args(arguments)
    run = partial(run_and_freeze, run_seed)
    floors = came_too_seldom if options.coverage else None
    exit_code = run_seeds("moldau.simulation.cluster", options, run, _went_well, _totals, floors)
    gc.unfreeze()
    return exit_code


def _went_well(outcome: Outcome) -> str:
    return (
        f"{outcome.nodes} nodes, {outcome.boots} boots, {sum(outcome.faults.values())} faults, "
        f"{outcome.acknowledged} operations acknowledged"
    )


def came_too_seldom(seen: Sequence[Outcome]) -> list[str]:
    """A line for each trouble and each event that occurred less often than required for this number of seeds."""
    faults, events, transaction_events = _counted(seen)
    counts = {name: (faults[name], TROUBLES_OF_1000) for name in MEANS_MS}
    counts |= {event.value: (events[event], EVENTS_OF_1000) for event in ClusterEvent}
    counts |= {event.value: (transaction_events[event], EVENTS_OF_1000) for event in SEEN_BY_CLIENTS}
    return too_seldom(counts, len(seen))


def _counted(seen: Sequence[Outcome]) -> tuple[Counter[str], Counter[ClusterEvent], Counter[TransactionEvent]]:
    faults: Counter[str] = Counter()
    events: Counter[ClusterEvent] = Counter()
    transaction_events: Counter[TransactionEvent] = Counter()
    for outcome in seen:
        faults.update(outcome.faults)
        events.update(outcome.events)
        transaction_events.update(outcome.transaction_events)
    return faults, events, transaction_events


def _totals(seen: Sequence[Outcome]) -> str:
    faults, events, transaction_events = _counted(seen)
    least = min((outcome.acknowledged for outcome in seen), default=0)
    rows = [f"{count:9,}  {name}" for name, count in sorted(faults.items())]
    rows += [f"{events[event]:9,}  {event.value}" for event in ClusterEvent]
    rows += [f"{transaction_events[event]:9,}  {event.value}" for event in SEEN_BY_CLIENTS]
    return "\n".join([f"at least {least} operations acknowledged in each", *rows, "in all"])


if __name__ == "__main__":
    sys.exit(main())
