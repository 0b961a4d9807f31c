"""Runs a pipeline in a process of its own: claims it, opens a Spark session, and ends cleanly.

A stop (SIGINT, SIGTERM) waits for the batches that are being written, up to two minutes, and begins no others. A second
signal interrupts them. Neither this nor a kill loses records, because an interrupted batch runs again. A lost broker is
retried for `retry_timeout`, with a line every 10 s on the terminal. All other output of Spark and the client goes to
the driver's log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Protocol

from msgspec.structs import replace
from rich.console import Console

from moldau.products.pipelines.core.commit_metadata import BoardPlace
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.running.logs import logs_to
from moldau.products.pipelines.running.progress import ProgressDisplay
from moldau.products.pipelines.running.running_pipeline import RunningPipeline, claim_pipeline
from moldau.products.pipelines.running.stopping import StopRequest, signals
from moldau.products.pipelines.spec.spec import PipelineSpec, describe
from moldau.spark.queries.query_set import QuerySet
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.queries.supervision import LOOK_SECONDS, RETRY_FIRST_SECONDS, STOP_WITHIN_SECONDS

DRIVER_LOG = "driver.log"


class Onlooker(Protocol):
    """Observes a run, besides the terminal."""

    def show(self, states: Sequence[SupervisedState]) -> None:
        """Receives the state of the queries, several times a second."""


def run_pipeline(
    spec: PipelineSpec,
    *,
    once: bool = False,
    console: Console | None = None,
    onlookers: Sequence[Onlooker] = (),
    board: BoardPlace | None = None,
    settings: Mapping[str, str] | None = None,
    retry_first_seconds: float = RETRY_FIRST_SECONDS,
    stop_within_seconds: float = STOP_WITHIN_SECONDS,
) -> list[SupervisedState]:
    """Runs until a signal stops it, or with `once` until all current records are processed; returns the last state of
    each query. `onlookers`: also observe the run. `board`: its port if one of them serves it, for the commit metadata.
    `settings`: of Spark, as in `open_session`. `retry_first_seconds`: the first pause before a failed query is started
    again. `stop_within_seconds`: how long a stop waits for the batches that are being written.

    Raises PreflightError, LeaseError, CheckpointError, FlowError, and the errors of `open_session`, sources and
    targets. If a query was given up, raises PipelineFailedError when the others have ended. Call it from the main
    thread: it handles SIGINT and SIGTERM while it runs.
    """
    from moldau.spark import open_session
    from moldau.spark.session.connect import REMOTE

    stop = StopRequest()
    claimed = claim_pipeline(spec, on_server=REMOTE in (settings or {}))
    log = spec.checkpoint / DRIVER_LOG
    facts = {**describe(spec), "log": str(log)}
    with ExitStack() as stack:
        stack.callback(claimed.release)
        stack.enter_context(logs_to(log))
        stack.enter_context(signals(stop))
        display = stack.enter_context(ProgressDisplay(facts, console))
        display.show(claimed.starting, force=True)
        spark = open_session(spec.name, settings, log_path=log)
        try:
            with (
                QuerySet(retry_first_seconds=retry_first_seconds) as queries,
                closing(
                    RunningPipeline(claimed, spark, queries, stop=stop, once=once, board=board, settings=settings)
                ) as running,
            ):
                states = _until_the_end(
                    running, queries, stop, stop_within_seconds, _Shown(display, onlookers), once=once
                )
                failures = running.failures()
        except ConnectionError as error:
            raise PipelineFailedError(f"the JVM of Spark ended before the pipeline did; {log} says why") from error
    if failures:
        raise PipelineFailedError("\n".join(failures))
    return states


class _Shown:
    def __init__(self, display: ProgressDisplay, onlookers: Sequence[Onlooker]) -> None:
        self._display = display
        self._onlookers = onlookers

    def __call__(self, states: list[SupervisedState], *, force: bool = False) -> list[SupervisedState]:
        self._display.show(states, force=force)
        for onlooker in self._onlookers:
            onlooker.show(states)
        return states


def _until_the_end(
    running: RunningPipeline,
    queries: QuerySet,
    stop: StopRequest,
    stop_within_seconds: float,
    show: _Shown,
    *,
    once: bool,
) -> list[SupervisedState]:
    """`once`: the queries end by themselves, and a query that was given up is not tried again."""
    while running.is_kept and not stop.wait(LOOK_SECONDS):
        running.refresh_tables()
        queries.supervise(also_given_up=not once)
        if not stop.is_asked:  # otherwise a query that ended on purpose would look like a failure
            show(running.states)
    running.withdraw()
    if stop.is_asked:
        show([one if one.is_over else replace(one, state="stopping") for one in running.states], force=True)
    return show(running.stop(stop_within_seconds), force=True)
