"""A process that answers for all streaming sources of a session, with a thread for each.

Spark starts a Python process for each source of each streaming query and asks it for offsets over a socket. The worker
host hands such calls over to this process, so that a query costs a thread instead of 25 MB. The program that Spark
started ends at once.

A source that waits, or that raises, concerns its own query. If this process dies, Spark fails the queries of all its
sources, and the next call starts another process. It ends with the driver. If only the worker host has ended, it ends
after its last source.

Run as `python -m moldau.spark.session.worker_sources CONTROL`: the descriptor of a socket from the worker host. Each
message on it is a Call in JSON, with the descriptor of the connection to the program that Spark started.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import traceback
from typing import IO

import msgspec
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import write_int
from pyspark.sql.streaming import python_streaming_source_runner
from pyspark.util import handle_worker_exception, local_connect_and_auth

from moldau.errors import MoldauError
from moldau.spark.in_words import HIDE_TRACEBACK
from moldau.spark.session.worker_start import END
from moldau.spark.source import idle

LARGEST_MESSAGE = 1 << 14
HANDED_OVER = b"\1"
_hides_all = bool(os.environ.get(HIDE_TRACEBACK))


class Call(msgspec.Struct, frozen=True):
    """`address`: the path or the port at which Spark waits for the source. `secret`: None for a path."""

    address: str | int
    secret: str | None = None


def main() -> None:
    """Takes calls until the worker host ends. Then the process ends with the last thread."""
    python_streaming_source_runner.handle_worker_exception = _report  # type: ignore[attr-defined, assignment]
    idle.answer_for_all()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        while True:
            message, descriptors, _, _ = socket.recv_fds(control, LARGEST_MESSAGE, 1)
            if message == END:
                os._exit(0)  # also with a source that waits for ever
            if not message:
                return
            caller = socket.socket(fileno=descriptors[0])
            call = msgspec.json.decode(message, type=Call)
            try:
                threading.Thread(target=_answer, args=(call, caller), name="moldau-source").start()
            except RuntimeError:  # no more threads: without an answer, the program becomes Python
                caller.close()


def _answer(call: Call, caller: socket.socket) -> None:
    """Connects to Spark and answers for one source until Spark closes the connection."""
    try:
        with caller:
            stream, connected = local_connect_and_auth(call.address, call.secret)
            caller.sendall(HANDED_OVER)
    except (OSError, PySparkRuntimeError):
        traceback.print_exc()
        return
    with connected, stream:
        connected.settimeout(None)
        try:
            write_int(os.getpid(), stream)  # type: ignore[no-untyped-call]
            stream.flush()
            python_streaming_source_runner.main(stream, stream)
        except (SystemExit, OSError):
            """Spark's end of a source: its runner reports each error to Spark, and then cannot write or exits."""


def _report(error: BaseException, outfile: IO[bytes], hide_traceback: bool | None = None) -> None:
    """As Spark's own, but a source whose error is told without its traceback decides for itself alone."""
    handle_worker_exception(error, outfile, hide_traceback=_hides_all or isinstance(error, MoldauError))


if __name__ == "__main__":
    main()
