"""A process that imports what a session's Python processes need, and forks them.

Spark's JVM starts a separate Python interpreter for each call of a data source: to look the source up, to create it, to
plan a read, to plan a write, to commit one, to ask a stream for offsets, and for the tasks. Each imports numpy,
pyarrow, pandas and this package again: seven times half a second or more before the first batch is written.

With a host, Spark starts a small program in place of Python (`worker_launch`). The program passes its arguments,
environment and three streams to the host, which forks itself. The fork runs the module that Spark named, as `python -m`
would, and the program ends when the fork ends. If the host is gone, the program becomes the Python that Spark
requested. The host ends with the driver, when the pipe at its standard input closes.

The sources of streaming queries run as long as their queries. One fork answers for all of them (`worker_sources`); the
host passes their calls on to it, and forks the next one if it has ended.

Run as `python -m moldau.spark.session.worker_host LISTENER FOLDER`: the descriptor of a listening socket, and a folder
to remove at the end.
"""

from __future__ import annotations

import contextlib
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

from moldau.spark.session.worker_start import END, LOG_VARIABLE

_IMPORTED_EARLY = (
    "moldau.spark.session.worker_daemon",
    "moldau.spark.session.worker_sources",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
)
_SOURCE = "pyspark.sql.streaming.python_streaming_source_runner"
_SOURCES = "moldau.spark.session.worker_sources"
_SOCKET, _PORT, _SECRET = (f"PYTHON_WORKER_FACTORY_{what}" for what in ("SOCK_PATH", "PORT", "SECRET"))
"""The variables that differ between the calls of a session."""
_MEMORY_LIMIT = "PYSPARK_PLANNER_MEMORY_MB"
"""Spark's limit for each source: a source with a limit has its own process."""
_LARGEST_CALL = 4 << 20
_CALL_TIMEOUT_S = 10.0
"""For a program that was stopped during its call."""


class _Call(msgspec.Struct, frozen=True):
    """`words`: a module and its arguments. `directory`: the working directory for the module. `streams`: descriptors of
    its input, output and errors."""

    words: list[str]
    environment: dict[str, str]
    directory: str
    streams: list[int]


def main() -> None:
    """Runs the host, and in each fork the requested module."""
    # A signal to all of the driver's processes must not end the host: the driver ends it, as it does the JVM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))  # blocked by the parent
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the forks
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        for name in _IMPORTED_EARLY:
            importlib.import_module(name)
        gc.freeze()  # exempts the imports from garbage collection, in every fork
        call = _serve(listener)
    if call is None:
        shutil.rmtree(sys.argv[2], ignore_errors=True)
    else:
        _run(call)


def _serve(listener: socket.socket) -> _Call | None:
    """In each fork, its call. In the host, None when the driver has ended."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    poller.register(0, 0)  # reports only that the other end was closed
    sources = _Sources()
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == 0:
                sources.end()
                return None
            connection, _ = listener.accept()
            with connection:
                call = _taken(connection)
                if call is None:
                    continue
                if call.words == [_SOURCE] and _MEMORY_LIMIT not in call.environment:
                    started = sources.pass_on(call, connection)
                    if started is not None:
                        return started
                elif _fork() == 0:
                    connection.sendall(b"\0")
                    connection.detach()  # open until this process ends
                    return call
                for stream in call.streams:
                    os.close(stream)


class _Sources:
    """The process that answers for the streaming sources. Calls with another environment, as those of a later session,
    start the next one, and the earlier one ends after its last source."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._environment: dict[str, str] = {}
        self._directory = ""

    def pass_on(self, call: _Call, connection: socket.socket) -> _Call | None:
        """In the fork that starts, its call. The program that called gets no answer if no process takes the call."""
        environment = {name: value for name, value in call.environment.items() if name not in (_SOCKET, _PORT, _SECRET)}
        address = call.environment.get(_SOCKET) or int(call.environment.get(_PORT, 0))
        message = {"address": address, "secret": call.environment.get(_SECRET)}
        if (environment, call.directory) != (self._environment, self._directory):
            self._close()
            self._environment, self._directory = environment, call.directory
        for _ in range(2):
            if self._control is None:
                started = self._start(call)
                if started is not None:
                    return started
            try:
                if self._control is not None:
                    socket.send_fds(self._control, [json.dumps(message).encode()], [connection.fileno()])
                return None
            except OSError:  # it has ended, or takes no more calls
                self._close()
        return None

    def _start(self, call: _Call) -> _Call | None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        forked = _fork()
        if forked != 0:
            theirs.close()
            if forked > 0:
                self._control = ours
            else:
                ours.close()
            return None
        ours.close()
        for stream in call.streams:
            os.close(stream)
        output = _output(call.environment.get(LOG_VARIABLE, os.devnull))
        streams = [os.open(os.devnull, os.O_RDONLY), output, os.dup(output)]
        return _Call([_SOURCES, str(theirs.detach())], self._environment, self._directory, streams)

    def end(self) -> None:
        """The driver has ended, and nobody needs an answer."""
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.send(END)
            self._close()

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None


def _output(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _fork() -> int:
    """As `os.fork`; -1 if the machine cannot create another process. The caller then gets no answer."""
    try:
        return os.fork()
    except OSError:
        return -1


def _taken(connection: socket.socket) -> _Call | None:
    """None for an incomplete call."""
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
    """Does what `python -m` with these arguments would do there."""
    for place, stream in enumerate(call.streams):
        os.dup2(stream, place)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(call.environment)
    os.chdir(call.directory)
    sys.path[1:1] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in sys.path]
    module, *sys.argv[1:] = call.words
    sys.modules.pop(module, None)  # so that it runs under another name
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
