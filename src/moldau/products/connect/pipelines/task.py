"""Runs a pipeline between the commands of its worker: see `moldau.products.connect.pipelines`."""

from __future__ import annotations

import traceback
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from moldau.connect.running.protocol import Command, Commands, Progress, Reporter, State, Task
from moldau.errors import MoldauError
from moldau.products.connect.pipelines.configuration import cluster_of, spark_settings, spec_of

if TYPE_CHECKING:
    from moldau.products.pipelines.running.running_pipeline import RunningPipeline
    from moldau.products.pipelines.spec.spec import PipelineSpec
    from moldau.spark import SparkSession
    from moldau.spark.queries.query_set import QuerySet

STOPPED, FAILED = 0, 1
"""Exit codes."""
LOOK_S: Final = 0.2
PAUSED_WAIT_S: Final = 3600.0
LEASE_WAIT_S: Final = 1.0
"""Between two tries to get a lease that another process has."""
STOP_WITHIN_S: Final = 15.0
"""For batches that are being written at a stop; less than the process has (`moldau.connect.running.process`)."""
PAUSE_WITHIN_S: Final = 120.0


class PipelineEndedError(MoldauError):
    """No query runs any more."""


def run(task: Task, commands: Commands, reporter: Reporter) -> int:
    """Runs the task to its end, and returns the exit code of the process."""
    try:
        with ExitStack() as stack:
            _Job(task, reporter, stack).run(commands)
    except Exception as error:
        # a sentence of ours is for people, a trace of Python is for developers
        reporter.report_failure(str(error) if isinstance(error, MoldauError) else traceback.format_exc())
        return FAILED
    reporter.report_state(State.STOPPED, finished=False)
    return STOPPED


class _Job:
    def __init__(self, task: Task, reporter: Reporter, stack: ExitStack) -> None:
        """`stack`: of the process."""
        self._task = task
        self._reporter = reporter
        self._stack = stack
        self._spark: SparkSession | None = None
        self._queries: QuerySet | None = None
        self._running: RunningPipeline | None = None
        self._before = Progress()
        """The totals of the queries that ended with a pause."""

    def run(self, commands: Commands) -> None:
        """Until a stop. Raises MoldauError, and Spark's errors."""
        state = self._task.state
        while True:
            if state is State.RUNNING and self._running is None:
                self._begin()
            if state is State.PAUSED:
                self._reporter.report_state(state)
            waiting_s = LEASE_WAIT_S if state is State.RUNNING else PAUSED_WAIT_S
            match commands.next(waiting_s if self._running is None else LOOK_S):
                case Command.STOP:
                    self._end(STOP_WITHIN_S)
                    return
                case Command.PAUSE:
                    self._end(PAUSE_WITHIN_S)
                    state = State.PAUSED
                case Command.RESUME:
                    state = State.RUNNING
                case None if self._running is not None:
                    self._look(self._running)

    def _begin(self) -> None:
        """Starts the queries, or says who has the lease."""
        from moldau.products.pipelines.checkpoints.lease import LeaseError
        from moldau.products.pipelines.running.running_pipeline import RunningPipeline, claim_pipeline
        from moldau.products.pipelines.running.stopping import StopRequest
        from moldau.spark.session.connect import REMOTE

        task, settings = self._task, spark_settings(self._task.config)
        spec = spec_of(task.config, cluster_of(task.bootstrap_servers, task.client))
        try:
            claimed = claim_pipeline(spec, on_server=REMOTE in settings)
        except LeaseError as error:
            self._reporter.report_failure(str(error))
            return
        try:
            spark, queries = self._session(spec, settings)
        except BaseException:
            claimed.release()
            raise
        self._running = RunningPipeline(claimed, spark, queries, stop=StopRequest(), settings=settings)
        self._reporter.report_state(State.RUNNING)

    def _session(self, spec: PipelineSpec, settings: dict[str, str]) -> tuple[SparkSession, QuerySet]:
        """That of the process, which outlives a pause."""
        from moldau.products.pipelines.running.logs import logs_to
        from moldau.products.pipelines.running.runner import DRIVER_LOG
        from moldau.spark import open_session
        from moldau.spark.queries.query_set import QuerySet

        if self._spark is None or self._queries is None:
            log = spec.checkpoint / DRIVER_LOG
            self._stack.enter_context(logs_to(log))
            self._spark = open_session(spec.name, settings, log_path=log)
            self._queries = self._stack.enter_context(QuerySet())
        return self._spark, self._queries

    def _look(self, running: RunningPipeline) -> None:
        """A query that was given up is tried again while others run. Raises PipelineEndedError when none runs."""
        running.refresh_tables()
        if self._queries is not None:
            self._queries.supervise(also_given_up=True)
        failures = "\n".join(running.failures())
        self._reporter.report_progress(self._progress(running))
        if not running.is_kept:
            raise PipelineEndedError(failures or "the queries have ended")
        if failures:
            self._reporter.report_failure(f"{failures}\nThe other queries run.")
        else:
            self._reporter.report_state(State.RUNNING)

    def _progress(self, running: RunningPipeline) -> Progress:
        from moldau.products.pipelines.checkpoints.checkpoint import newest_finished_batch

        states, offset = running.states, dict[str, dict[str, int]]()
        topics: set[str] = set()
        for query in running.spec.queries:
            done = newest_finished_batch(query.checkpoint)
            for one, end in done.offsets.items() if done is not None else ():
                of_topic = offset.setdefault(one.topic, {})
                of_topic[str(one.partition)] = min(end, of_topic.get(str(one.partition), end))
            if done is not None and query.target.topic is not None:
                topics.add(query.target.topic)
        lags = [one.lag for one in states]
        lag = None if None in lags else sum(one for one in lags if one is not None)
        return Progress(
            records=self._before.records + sum(one.records_read for one in states),
            batches=self._before.batches + sum(one.batches for one in states),
            topics=topics | set(offset),
            offset=offset,
            lag=lag,
            is_idle=lag == 0,
        )

    def _end(self, within_s: float) -> None:
        """After the batches that are being written."""
        running, self._running = self._running, None
        if running is None:
            return
        running.stop_request.ask()
        running.withdraw()
        running.stop(within_s)
        self._before = self._progress(running)
        self._reporter.report_progress(self._before, is_last=True)
        running.close()
