"""Runs each pipeline file of a directory in its own process, and follows changes of the files.

A changed pipeline is stopped after the batch that is being written, and restarted. If the changed pipeline cannot be
run, a message names it, and its current run continues. A failed process is restarted, after pauses that double.
"""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from moldau.products.pipelines.serving.boards import Boards
from moldau.products.pipelines.serving.directory import Finding, SpecDirectory
from moldau.products.pipelines.spec.spec import PipelineSpec

Command = Callable[[Path], Sequence[str]]
"""The command that runs a pipeline file; the words for its board follow it."""
LOOK_EVERY_S = 2.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
STEADY_S = 60.0
"""A process that lived this long is restarted after the first pause."""
START_WITHIN_S, STOP_WITHIN_S = 60.0, 150.0
"""Limits in seconds. That for a stop is longer than the time that a run gives to the batches being written."""
RUNS = b": running, "
"""Part of the lines that a run prints about each query."""
_INVALID_SPEC = 2
"""The exit code of a run with an invalid pipeline file, which only a change of the file can fix."""


def serve_directory(found: SpecDirectory, command: Command, boards: Boards | None = None) -> int:
    """Runs until Ctrl-C or SIGTERM; then each pipeline ends after the batch that is being written. `boards`: the
    addresses of their boards; None: no boards. Returns the exit code."""
    return asyncio.run(_serve(found, command, boards))


async def _serve(found: SpecDirectory, command: Command, boards: Boards | None) -> int:
    loop = asyncio.get_running_loop()
    specs: dict[Path, ServedPipeline] = {}
    following = loop.create_task(_follow(found, specs, command, boards))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, following.cancel)  # also during the stop of a changed pipeline
    with suppress(asyncio.CancelledError):
        await following
    await asyncio.gather(*(spec.stop() for spec in specs.values()))
    return 0


async def _follow(
    found: SpecDirectory, specs: dict[Path, ServedPipeline], command: Command, boards: Boards | None = None
) -> None:
    """Applies changes until it is cancelled. A pipeline that stops slowly delays only its own file."""
    start_one = asyncio.Lock()
    taking: dict[Path, asyncio.Task[None]] = {}
    leaving: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            taking = {file: task for file, task in taking.items() if not task.done()}
            for finding in found.look(list(taking)):
                if finding.file not in specs:
                    specs[finding.file] = ServedPipeline(finding.file, start_one, command, boards)
                task = group.create_task(take(specs[finding.file], finding, tuple(leaving)))
                taking[finding.file] = task
                if finding.is_gone:
                    leaving.add(task)
                    task.add_done_callback(leaving.discard)
            await asyncio.sleep(LOOK_EVERY_S)


async def take(served: ServedPipeline, finding: Finding, leaving: Collection[asyncio.Task[None]] = ()) -> None:
    """Applies the change to the pipeline of the file. `leaving`: the stops of pipelines whose files are gone. A new
    pipeline waits for these, because it may be one of them under a new name."""
    if finding.refusal is not None:
        served.tell(("continues unchanged, for " if served.is_kept else "is not run: ") + finding.refusal)
        return
    if finding.is_same and served.is_kept:
        return
    if leaving and not served.is_kept:
        await asyncio.wait(leaving)
    await served.stop()
    if finding.spec is not None:
        served.start(finding.spec)
    else:
        served.leave()


class ServedPipeline:
    """The process of one pipeline, and its successors."""

    def __init__(self, file: Path, start_one: asyncio.Lock, command: Command, boards: Boards | None = None) -> None:
        """`start_one`: held by the one pipeline that is starting, because a start of Spark takes all cores for
        seconds."""
        self._file = file
        self._start_one = start_one
        self._command = command
        self._boards = boards
        self._process: Process | None = None
        self._ending: Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def is_kept(self) -> bool:
        return self._keeping is not None and not self._keeping.done()

    def start(self, spec: PipelineSpec) -> None:
        address = self._boards.address(self._file) if self._boards is not None else None
        board = f"; board {address}" if address is not None else ""
        self.tell(f"runs {spec.name}: {', '.join(query.name for query in spec.queries)}{board}")
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Stops after the batch that is being written; kills a process that takes longer than STOP_WITHIN_S. A
        cancelled call may be repeated: the process gets only one signal, because a second one would interrupt its
        batch."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process is not self._ending:
            self._ending = process
            with suppress(ProcessLookupError):
                process.terminate()
        try:
            await asyncio.wait_for(_end_of(process), STOP_WITHIN_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    def leave(self) -> None:
        """The file is gone, and the process has stopped."""
        if self._boards is not None:
            self._boards.leave(self._file)
        self.tell("is gone, and has stopped")

    def tell(self, what: str) -> None:
        print(f"{self._file.name}: {what}", flush=True)

    async def _keep(self) -> None:
        """Restarts the process whenever it fails, until it is cancelled."""
        loop, pause_s = asyncio.get_running_loop(), FIRST_PAUSE_S
        while True:
            started_s = loop.time()
            async with self._start_one:
                process = await self._begin()
                with suppress(TimeoutError):
                    await asyncio.wait_for(_running(process), START_WITHIN_S)
            code = await _end_of(process)
            if code in (0, _INVALID_SPEC):
                self.tell(f"ended with exit code {code}; it is run again when its file changes")
                return
            if loop.time() - started_s >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            self.tell(f"{how}, and is started again in {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _begin(self) -> Process:
        self._process = await asyncio.create_subprocess_exec(
            *self._command(self._file),
            *(self._boards.words(self._file) if self._boards is not None else ()),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,  # Ctrl-C is for the supervisor
        )
        return self._process


async def _running(process: Process) -> None:
    """Returns once a query runs, or the process has ended."""
    seen = b""
    # in blocks, because a pipeline's code may print a line that is too long for the stream's `readline`
    while process.stdout is not None and RUNS not in seen and (block := await process.stdout.read(1 << 16)):
        seen = seen[-len(RUNS) :] + block


async def _end_of(process: Process) -> int:
    """The exit code. Discards the process's output; `moldau pipeline status` has the information."""
    while process.stdout is not None and await process.stdout.read(1 << 16):
        pass
    return await process.wait()
