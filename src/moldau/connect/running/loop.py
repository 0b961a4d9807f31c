"""Runs a job between the commands of its worker."""

from __future__ import annotations

import traceback
from typing import Final

from moldau.connect.contract.runners import RUNNER, SPARK
from moldau.connect.contract.shared_settings import CLASS
from moldau.connect.handling.stages import StoppedError as NotHandledError
from moldau.connect.running.jobs import Job, OpenJob, Step
from moldau.connect.running.protocol import Command, Commands, Reporter, State, Task
from moldau.connect.running.transactions import FencedError, StoppedError

STOPPED, FAILED = 0, 1
"""Exit codes."""
PAUSED_WAIT_S: Final = 3600.0
_OF_SESSIONS: Final = ("SESSION_OR_CONTEXT_NOT_EXISTS", "NO_ACTIVE_OR_DEFAULT_SESSION", "CONNECT_URL_NOT_SET")
"""Error conditions of pyspark without a session."""


def run(task: Task, commands: Commands, reporter: Reporter, open_job: OpenJob) -> int:
    """Runs the task to its end, and returns the exit code of the process."""
    job: Job | None = None
    is_finished = False
    try:
        job, wait_s = open_job(task, commands)
        is_finished = _run(job, task.state, wait_s, commands, reporter)
        job.close()
    except Exception as error:
        trace = traceback.format_exc() + _hint(error, task)
        _close(job)
        if not _is_stop(error, commands):
            if job is not None:
                reporter.report_progress(job.progress, is_last=True)
            reporter.report_failure(trace)
            return FAILED
    if job is not None:
        reporter.report_progress(job.progress, is_last=True)
    reporter.report_state(State.STOPPED, finished=is_finished)
    return STOPPED


def _is_stop(error: Exception, commands: Commands) -> bool:
    """Whether the error is the end of a task that was asked to stop; another task may have its place already."""
    return isinstance(error, StoppedError | NotHandledError) or (
        isinstance(error, FencedError) and commands.is_stopping.is_set()
    )


def _hint(error: Exception, task: Task) -> str:
    """About an error of pyspark that its own words do not explain."""
    condition = getattr(error, "getCondition", lambda: None)()
    if condition not in _OF_SESSIONS:
        return ""
    return (
        f"{task.config.get(CLASS, '')} asks for a Spark session, which a light task does not have: "
        f"set {RUNNER} to {SPARK}\n"
    )


def _run(job: Job, state: State, wait_s: float, commands: Commands, reporter: Reporter) -> bool:
    """Whether the job has finished by itself."""
    job.start()
    reporter.report_state(state)
    must_wait = False
    while True:
        pause_s = PAUSED_WAIT_S if state is State.PAUSED else wait_s if must_wait else 0
        match commands.next(pause_s):
            case Command.STOP:
                return False
            case Command.PAUSE:
                job.pause()
                state = State.PAUSED
            case Command.RESUME:
                state = State.RUNNING
            case None if state is State.RUNNING:
                step = job.step(wait_s)
                job.progress.rest(step is not Step.BUSY)
                if step is Step.FINISHED:
                    return True
                must_wait = step is Step.IDLE
        reporter.report_state(state)
        reporter.report_progress(job.progress)


def _close(job: Job | None) -> None:
    """After an error, which is reported; one of closing would hide it."""
    if job is not None:
        try:
            job.close()
        except Exception:
            traceback.print_exc()
