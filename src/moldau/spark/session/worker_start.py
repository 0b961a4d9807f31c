"""Starts the worker host, for a session on this machine only."""

from __future__ import annotations

import functools
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

ADDRESS_VARIABLE = "MOLDAU_WORKER_HOST"
LOG_VARIABLE = "MOLDAU_WORKER_LOG"
"""The file for the output of the process of the streaming sources, which is not a child of the JVM."""
END = b"end"
"""The last message of a worker host whose driver has ended."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAUNCHER = Path(__file__).with_name("worker_launch.py")


class WorkerHost(msgspec.Struct, frozen=True):
    """`address`: for the environment of `launch_script`. The host ends when `process.stdin` is closed."""

    process: subprocess.Popen[bytes]
    address: str


def launch_script() -> str:
    """The program for Spark to start in place of Python."""
    words = (sys.executable, "-IS", str(_LAUNCHER), sys.executable)
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


@functools.cache
def worker_host(threads: str) -> WorkerHost:
    """This process's host, for its one session; started by the first call.

    `threads`: of numerical libraries in each worker, as OMP_NUM_THREADS. The host accepts calls before it has imported
    everything; an early call waits. Raises OSError, also for a temporary directory whose path is too long for a socket.
    """
    folder = Path(tempfile.mkdtemp(prefix="moldau-workers-"))  # no other user can enter it
    address = folder / "host"
    # The variables that Spark sets for its processes, if modules read them on import.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": threads}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(address))
        listener.listen(128)
        # The host starts with these signals blocked, until it ignores them. Otherwise Ctrl-C during its imports would
        # end it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        try:
            process = subprocess.Popen(
                (sys.executable, "-m", "moldau.spark.session.worker_host", str(listener.fileno()), str(folder)),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=environment,
                pass_fds=(listener.fileno(),),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return WorkerHost(process, str(address))
