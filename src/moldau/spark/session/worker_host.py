"""A process that imports what a session's Python processes need, and forks them.

Spark's JVM starts a Python interpreter of its own for each thing that it asks of a data source: to look the source up,
to make it, to plan a read, to plan a write, to commit one, to ask a stream for offsets, and for the tasks. Each imports
numpy, pyarrow, pandas and this package again: seven times half a second or more before the first batch is written.

With a host, Spark starts a small program in place of Python (`worker_launch`), which hands its arguments, environment
and three streams over to the host and ends when the fork that the host makes of itself ends. Such a fork runs the
module that Spark named, as `python -m` would. Where the host is gone, the program becomes the Python that Spark asked
for. The host ends with the driver: the pipe that is the host's standard input closes then.

Run as `python -m moldau.spark.session.worker_host LISTENER FOLDER`: the descriptor of a socket that listens, and a
folder to remove at the end.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys

import msgspec

_IMPORTED_EARLY = (
    "moldau.spark.session.worker_daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
)
_LARGEST_CALL = 4 << 20
_CALL_TIMEOUT_S = 10.0
"""For a program that was stopped while it called."""


class _Call(msgspec.Struct, frozen=True):
    """`words`: a module and its arguments. `directory`: where the module is to run. `streams`: descriptors of its
    input, output and errors."""

    words: list[str]
    environment: dict[str, str]
    directory: str
    streams: list[int]


def main() -> None:
    """The host, and in each fork of it the module that was asked for."""
    # Whoever stops the driver by a signal to all of its processes leaves their end to the driver, as the JVM does.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))  # held back by the one who started it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        for name in _IMPORTED_EARLY:
            importlib.import_module(name)
        gc.freeze()  # what is imported is no garbage, in no fork
        call = _serve(listener)
    if call is None:
        shutil.rmtree(sys.argv[2], ignore_errors=True)
    else:
        _run(call)


def _serve(listener: socket.socket) -> _Call | None:
    """In each fork its call; in the host None, when the driver has ended."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    poller.register(0, 0)  # tells only that the other end was closed
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == 0:
                return None
            connection, _ = listener.accept()
            with connection:
                call = _taken(connection)
                if call is None:
                    continue
                if _fork() == 0:
                    connection.sendall(b"\0")
                    connection.detach()  # open until this process ends
                    return call
                for stream in call.streams:
                    os.close(stream)


def _fork() -> int:
    """As `os.fork`; -1 where the machine has no process left, and the caller hears nothing."""
    try:
        return os.fork()
    except OSError:
        return -1


def _taken(connection: socket.socket) -> _Call | None:
    """None for a call that broke off."""
    streams: list[int] = []
    try:
        connection.settimeout(_CALL_TIMEOUT_S)
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        with connection.makefile("rb") as reader:
            said = json.loads(reader.read(_LARGEST_CALL))
            return msgspec.convert({**said, "streams": streams}, _Call)
    except (OSError, ValueError, TypeError, msgspec.MsgspecError):
        for stream in streams:
            os.close(stream)
        return None


def _run(call: _Call) -> None:
    """Does what `python -m` with these words would do in that place."""
    for place, stream in enumerate(call.streams):
        os.dup2(stream, place)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(call.environment)
    os.chdir(call.directory)
    sys.path[1:1] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in sys.path]
    module, *sys.argv[1:] = call.words
    sys.modules.pop(module, None)  # it is to run, under another name
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
