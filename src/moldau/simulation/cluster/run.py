"""Runs one seed in its own world, and returns the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from moldau.simulation.cluster.faults import Act
from moldau.simulation.cluster.story import Story
from moldau.simulation.cluster.watch import ClusterEvent
from moldau.simulation.cluster.world import ClusterWorld
from moldau.simulation.loop import virtual_loop
from moldau.simulation.run import violation_of, without_collections
from moldau.simulation.seeds import SeedOutcome, how_it_ended
from moldau.simulation.transaction_events import TransactionEvent

DEFAULT_SECONDS = 60.0


class Outcome(SeedOutcome, frozen=True, kw_only=True):
    """The outcome of a seed: how often each trouble and each event occurred."""

    nodes: int
    boots: int
    faults: dict[str, int]
    events: dict[ClusterEvent, int]
    transaction_events: dict[TransactionEvent, int]


def run_seed(
    seed: int,
    *,
    seconds: float = DEFAULT_SECONDS,
    chosen: Collection[Act] | None = None,
    write_line: Callable[[str], None] | None = None,
) -> Outcome:
    """Runs the whole story of `seed`, or only with the acts `chosen` of its trouble. Deterministic: the same code and
    seed give the same digest."""
    with without_collections():
        return _run_world(seed, seconds, chosen, write_line)


def _run_world(
    seed: int, seconds: float, chosen: Collection[Act] | None, write_line: Callable[[str], None] | None
) -> Outcome:
    began = time.perf_counter()
    with virtual_loop() as loop:
        world = ClusterWorld(seed, loop, write_line)
        story = Story(world, chosen)
        try:
            violation = violation_of(world, story.run(seconds))
        finally:
            world.end_work()
        return Outcome(
            seed=seed,
            **how_it_ended(world.trace, violation),
            nodes=len(world.machines),
            boots=sum(machine.boots for machine in world.machines),
            faults=dict(story.faults.happened),
            events=dict(world.watch.happened),
            transaction_events=world.transaction_events,
            acknowledged=story.operations,
            elapsed_s=time.perf_counter() - began,
        )
