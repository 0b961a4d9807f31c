"""Runs one seed in its own world, and returns the outcome."""

from __future__ import annotations

import gc
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from moldau.errors import InvariantError
from moldau.simulation.client import UnansweredError
from moldau.simulation.kinds import settings_of
from moldau.simulation.loop import StuckError, virtual_loop
from moldau.simulation.scenario import Scenario
from moldau.simulation.seeds import SeedOutcome, how_it_ended
from moldau.simulation.surroundings import Surroundings
from moldau.simulation.transaction_events import TransactionEvent
from moldau.simulation.violation import ViolationError
from moldau.simulation.world import World

AnyOutcome = TypeVar("AnyOutcome", bound=SeedOutcome)

DEFAULT_SECONDS = 9.0


class Outcome(SeedOutcome, frozen=True, kw_only=True):
    """The outcome of one seed."""

    events: int
    boots: int
    virtual_s: float
    transaction_events: dict[TransactionEvent, int]
    troubles: dict[str, int]
    """How often each of `troubles.FLOORS_OF_1000` occurred."""


def run_seed(
    seed: int,
    *,
    seconds: float = DEFAULT_SECONDS,
    write_line: Callable[[str], None] | None = None,
    is_every_event_told: bool = False,
) -> Outcome:
    """Runs the whole story of `seed`. Deterministic: the same code and seed give the same digest."""
    with without_collections():
        return _run_world(seed, seconds, write_line, is_every_event_told)


@contextmanager
def without_collections(*, is_collected_after: bool = True) -> Iterator[None]:
    """Delays Python's cycle collector until the world has ended. During a story it would run finalizers of dead
    processes at times that no seed repeats."""
    gc.disable()
    hook = sys.unraisablehook
    try:
        with warnings.catch_warnings():
            # coroutines that a killed process had only just created
            warnings.filterwarnings("ignore", "coroutine .* was never awaited")
            yield
            # while being collected, a dead process tries to clean up, and finds that it is dead
            sys.unraisablehook = lambda unraisable: None
            if is_collected_after:
                gc.collect()
    finally:
        sys.unraisablehook = hook
        gc.enable()


def run_and_freeze(run: Callable[..., AnyOutcome], seed: int, **options: Any) -> AnyOutcome:
    """Runs a seed in a process that does nothing else. Between two seeds only modules and their caches are alive, so
    later collections can skip these objects."""
    outcome = run(seed, **options)
    # collects the objects that finalizers revived in the first collection; otherwise freezing would keep 30 MB for each
    # seed
    gc.collect()
    gc.freeze()
    return outcome


def _run_world(
    seed: int, seconds: float, write_line: Callable[[str], None] | None, is_every_event_told: bool
) -> Outcome:
    began = time.perf_counter()
    with virtual_loop() as loop:
        world = World(seed, loop, settings_of(seed), write_line)
        world.trace.is_every_event_told = is_every_event_told
        scenario = Scenario(world, seconds)
        try:
            violation = violation_of(world, scenario.run())
        finally:
            world.end_work()
        return Outcome(
            seed=seed,
            **how_it_ended(world.trace, violation),
            events=world.trace.count,
            boots=world.broker.boots,
            acknowledged=sum(len(partition.values) for partition in world.ledger.partitions.values()),
            virtual_s=loop.time(),
            transaction_events=world.transaction_events,
            troubles=dict(scenario.troubles.happened),
            elapsed_s=time.perf_counter() - began,
        )


def violation_of(world: Surroundings, story: Coroutine[Any, Any, None]) -> ViolationError | None:
    """Runs `story` to its end, or to the first broken rule."""
    try:
        return world.loop.run_until_complete(world.first_violation(story))
    except UnansweredError as error:
        return ViolationError("a healthy node answers", str(error))
    except StuckError as error:
        return ViolationError("something can always happen", str(error))
    except InvariantError as error:
        return ViolationError("invariants hold", "".join(traceback.format_exception(error)))
