"""Runs the pipeline files of a directory in one Spark session, and follows changes of the files.

Many small pipelines then cost one JVM and one driver. Each has its own views, leases and back-off: a query that fails
stops no neighbour. What all share is the session's settings, its cores, and its end if the JVM dies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from moldau.errors import MoldauError
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.looking.board.board import Board
from moldau.products.pipelines.running.logs import logs_to
from moldau.products.pipelines.running.progress import ProgressDisplay
from moldau.products.pipelines.running.running_pipeline import RunningPipeline, claim_pipeline
from moldau.products.pipelines.running.stopping import StopRequest, signals
from moldau.products.pipelines.serving.boards import Boards
from moldau.products.pipelines.serving.directory import Finding, SpecDirectory
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.service.logins.opened import Opening
from moldau.products.service.look.words import visible
from moldau.spark import open_session, spark_error
from moldau.spark.queries.query_set import QuerySet
from moldau.spark.queries.supervision import LOOK_SECONDS, STOP_WITHIN_SECONDS
from moldau.spark.session.connect import REMOTE

if TYPE_CHECKING:
    from moldau.spark import SparkSession

LOOK_EVERY_S = 2.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Between two attempts to start a pipeline."""
MOST_AT_ONCE = 8
"""Pipelines that are stopped at the same time; one is started at a time, because that takes all cores for seconds."""


def serve_shared(
    found: SpecDirectory,
    log: Path,
    settings: Mapping[str, str],
    *,
    boards: Boards | None = None,
    opening: Opening | None = None,
    console: Console | None = None,
) -> int:
    """Runs until Ctrl-C or SIGTERM; then each pipeline ends after the batch that is being written. `log`: of the
    session. `settings`: of Spark, as in `open_session`. `boards`: the addresses of the boards, None for no boards;
    `opening`: access to them. Returns the exit code. Call it from the main thread. Raises SparkStartError, and
    PipelineFailedError if the JVM ends, or for a Spark Connect server, whose sessions have no views apart."""
    if REMOTE in settings:
        raise PipelineFailedError(f"one session for all pipelines is Spark's own, not one of {settings[REMOTE]}")
    stop = StopRequest()
    log.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(logs_to(log))
        stack.enter_context(signals(stop))
        facts = {"pipeline": "all in one session", "log": str(log)}
        display = stack.enter_context(ProgressDisplay(facts, console))
        spark = open_session("moldau-pipelines", settings, log_path=log)
        queries = stack.enter_context(QuerySet())
        service = _Service(spark, queries, stop, boards, opening, settings)
        stack.callback(service.close)
        due = 0.0
        try:
            while not stop.wait(LOOK_SECONDS):
                if time.monotonic() >= due:
                    service.follow(found)
                    due = time.monotonic() + LOOK_EVERY_S
                queries.supervise(also_given_up=True)
                service.look()
                display.show(queries.states())
        except ConnectionError as error:
            raise PipelineFailedError(f"the JVM of Spark ended before the pipelines did; {log} says why") from error
    return 0


class _Service:
    """All pipelines of the directory."""

    def __init__(
        self,
        spark: SparkSession,
        queries: QuerySet,
        stop: StopRequest,
        boards: Boards | None,
        opening: Opening | None,
        settings: Mapping[str, str],
    ) -> None:
        self.spark, self.queries, self.stop = spark, queries, stop
        self.boards, self.opening, self.settings = boards, opening, settings
        self.start_one = threading.Lock()
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, "pipeline")
        self._served: dict[Path, _Served] = {}

    def follow(self, found: SpecDirectory) -> None:
        """Applies the changes of files, and starts again what could not be started."""
        busy = [file for file, one in self._served.items() if one.is_busy]
        leaving = [one.task for one in self._served.values() if one.is_busy and one.is_gone and one.task is not None]
        for finding in found.look(busy):
            served = self._served.setdefault(finding.file, _Served(finding.file, self))
            if served.takes(finding):
                served.task = self._pool.submit(served.change, finding.spec, tuple(leaving))
                if finding.is_gone:
                    leaving.append(served.task)
        for file, served in list(self._served.items()):
            if served.is_busy:
                continue
            if served.is_gone:
                del self._served[file]
            elif served.is_due:
                served.task = self._pool.submit(served.start)

    def look(self) -> None:
        for served in self._served.values():
            served.look()

    def close(self) -> None:
        """All pipelines stop at the same time, each after its batch."""
        self.stop.ask()
        self._pool.shutdown(cancel_futures=True)
        with ThreadPoolExecutor(max(1, len(self._served)), "pipeline-stop") as pool:
            wait([pool.submit(served.end) for served in self._served.values()])


class _Served:
    """The pipeline of one file. Only one task at a time changes it."""

    def __init__(self, file: Path, service: _Service) -> None:
        self.task: Future[None] | None = None
        self.is_gone = False
        self._file = file
        self._service = service
        self._spec: PipelineSpec | None = None
        self._running: RunningPipeline | None = None
        self._board: Board | None = None
        self._pause_s = FIRST_PAUSE_S
        self._due: float | None = None

    @property
    def is_busy(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def is_due(self) -> bool:
        """Whether a start that failed is tried again."""
        return self._due is not None and time.monotonic() >= self._due

    def takes(self, finding: Finding) -> bool:
        """Whether the change has to be applied."""
        is_kept = self._running is not None or self._due is not None
        if finding.refusal is not None:
            self.tell(("continues unchanged, for " if is_kept else "is not run: ") + finding.refusal)
            return False
        return not (finding.is_same and is_kept)

    def change(self, spec: PipelineSpec | None, leaving: Collection[Future[None]]) -> None:
        """Stops what runs and starts `spec`; None: the file is gone. `leaving`: the stops of pipelines whose files are
        gone: this one may be one of them under a new name."""
        self.is_gone = spec is None
        self.end()
        self._spec, self._pause_s, self._due = spec, FIRST_PAUSE_S, None
        if spec is None:
            if self._service.boards is not None:
                self._service.boards.leave(self._file)
            self.tell("is gone, and has stopped")
            return
        wait(leaving)
        self.start()

    def start(self) -> None:
        """Tries it again later if that fails for a reason that may pass."""
        service, spec = self._service, self._spec
        if spec is None or service.stop.is_asked:
            return
        self._due = None
        try:
            with service.start_one:
                self._begin(spec)
        except SpecError as error:
            self.tell(f"is not run until its file changes: {error}")
        except (MoldauError, *spark_error()) as error:  # type: ignore[misc]
            self.tell(f"was not started, and is tried again in {self._pause_s:g} s: {error}")
            self._due = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def look(self) -> None:
        running, board = self._running, self._board
        if running is not None and not self.is_busy:
            running.refresh_tables()
            if board is not None:
                board.show(running.states)

    def end(self) -> None:
        """After the batch that is being written."""
        running, self._running = self._running, None
        if running is not None:
            running.stop_request.ask()
            running.withdraw()
            running.stop(STOP_WITHIN_SECONDS)
            running.close()
        board, self._board = self._board, None
        if board is not None:
            board.__exit__(None, None, None)

    def tell(self, what: str) -> None:
        print(f"{self._file.name}: {visible(what)}", flush=True)

    def _begin(self, spec: PipelineSpec) -> None:
        service = self._service
        if service.boards is not None and self._board is None:
            host, port = service.boards.place(self._file)
            self._board = Board(spec, port, host, service.opening).__enter__()
        place = None if self._board is None else self._board.place
        claimed = claim_pipeline(spec, is_shared=True)
        self._running = RunningPipeline(
            claimed,
            service.spark,
            service.queries,
            stop=StopRequest(service.stop),
            board=place,
            settings=service.settings,
        )
        served_at = "" if self._board is None else f"; board {self._board.address}"
        self.tell(f"runs {spec.name}: {', '.join(query.name for query in spec.queries)}{served_at}")
