"""Runs one round of compaction: in a child process for a real directory, here with pauses for a directory in memory.

A round holds Python's lock for seconds, so a thread would stall every connection. A child cannot open a directory in
memory. Its logs are small, so the loop runs pieces of about 1 ms and serves others in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

import moldau
from moldau.core.log.cleaning.compaction import CompactionPlan, flush_cleaned
from moldau.ports import Clock, Disk, Workers
from moldau.shell.broker.logs.cleaner_child import ROUND_ERRORS, CleaningJob, CleaningOutcome, PacedRound, outcome_of
from moldau.shell.io.workers import ThreadWorkers


class CleanerProcess:
    """Used from the broker's loop; one round at a time."""

    def __init__(self, clock: Clock, workers: Workers, pause_long: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._workers = workers
        self._pause_long = pause_long
        self._waiting: ThreadWorkers | None = None
        """One thread that only waits for the child."""
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    async def run(self, disk: Disk, plan: CompactionPlan, max_bytes_per_second: float) -> CleaningOutcome:
        """Runs one round. The cleaned files are complete and durable, or the outcome names the problem, and some files
        may remain."""
        if disk.directory is None:
            return await self._run_here(disk, plan, max_bytes_per_second)
        if self._waiting is None:
            self._waiting = ThreadWorkers(threads=1)
        job = CleaningJob(disk.directory, plan, max_bytes_per_second, os.getpid())
        return await self._waiting.run(lambda: self._run_child(job))

    async def _run_here(self, disk: Disk, plan: CompactionPlan, max_bytes_per_second: float) -> CleaningOutcome:
        paced = PacedRound(disk, plan, max_bytes_per_second, lambda: self._clock.monotonic_ms() / 1000)
        try:
            for pause_s in paced:
                await (asyncio.sleep(pause_s) if pause_s else self._pause_long())
            await self._workers.run(lambda: flush_cleaned(disk, plan, paced.result))
        except ROUND_ERRORS as error:
            return outcome_of(error)
        return CleaningOutcome(result=paced.result)

    def _run_child(self, job: CleaningJob) -> CleaningOutcome:
        """Runs in the thread. The child's input stays open until the child has answered, as its end would end the
        child."""
        package_root = str(Path(moldau.__file__).parent.parent)
        search_path = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._lock:
            if self._is_closed:
                return CleaningOutcome(problem="stopped")
            try:
                child = self._child = subprocess.Popen(
                    [sys.executable, "-m", "moldau.shell.broker.logs.cleaner_child"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path)},
                )
            except OSError as error:
                return CleaningOutcome(problem="child", message=f"the cleaner's process cannot be started: {error}")
        answer, errors = b"", b""
        try:
            if child.stdin is not None and child.stdout is not None and child.stderr is not None:
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.write(msgspec.json.encode(job) + b"\n")
                    child.stdin.flush()
                answer = child.stdout.read()
                errors = child.stderr.read()
        finally:
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            status = child.wait()
        try:
            return msgspec.json.decode(answer, type=CleaningOutcome)
        except msgspec.DecodeError:
            last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
            return CleaningOutcome(problem="child", message=f"the cleaner's process ended with {status}: {last}")

    def close(self) -> None:
        """Ends the child, and waits until it has ended."""
        with self._lock:
            self._is_closed = True
            if self._child is not None:
                self._child.kill()
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None
