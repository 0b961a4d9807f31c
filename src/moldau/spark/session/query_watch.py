"""Shows the streaming queries of a session: a table on a terminal, otherwise a line every 10 s, and `/metrics` on a
loopback port.

A Spark listener receives each query's progress. It runs in a thread of Spark and only stores the reports.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from rich.console import Console
from rich.live import Live

from moldau.spark.session.query_states import QueryStates, metrics_page, state_line, states_table
from moldau.transport.exposition import CONTENT_TYPE
from moldau.transport.http_endpoint import is_loopback_host

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES_EVERY_SECONDS = 10.0
HTTP_TIMEOUT_SECONDS = 5.0


class QueryWatch:
    """Watches from its constructor to `close`; a context manager. `states`: the current states."""

    def __init__(self, spark: SparkSession, *, console: Console | None, metrics_port: int | None) -> None:
        """`console`: for the table, None for none. `metrics_port`: on 127.0.0.1, 0 for any free port, None for none.
        Raises OSError if the port is taken."""
        self.states = QueryStates()
        self._spark = spark
        self._http = None if metrics_port is None else _MetricsServer(metrics_port, self.states)
        self._display = None if console is None else _Display(console, self.states)
        self._listener = _Listener(self.states, self._display)
        spark.streams.addListener(self._listener)

    @property
    def metrics_port(self) -> int | None:
        return None if self._http is None else self._http.server_port

    def close(self) -> None:
        """Ends the watch; the queries continue."""
        self._spark.streams.removeListener(self._listener)
        if self._display is not None:
            self._display.close()
        if self._http is not None:
            self._http.stop()

    def __enter__(self) -> QueryWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(StreamingQueryListener):
    """Only stores reports, because an error in a thread of Spark would be lost."""

    def __init__(self, states: QueryStates, display: _Display | None) -> None:
        self._states = states
        self._display = display

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        self._states.started(str(event.runId), event.name)
        self._show()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._states.progressed(str(event.progress.runId), json.loads(event.progress.json))
        self._show()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._states.ended(str(event.runId), event.exception)
        self._show(is_end=True)

    def _show(self, *, is_end: bool = False) -> None:
        if self._display is not None:
            self._display.show(is_end=is_end)


class _Display:
    def __init__(self, console: Console, states: QueryStates) -> None:
        self._console = console
        self._states = states
        self._line_due = 0.0
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()

    def show(self, *, is_end: bool) -> None:
        now = time.monotonic()
        if self._live is not None:
            self._live.update(states_table(self._states.all()), refresh=True)
        elif is_end or now >= self._line_due:
            self._line_due = now + LINES_EVERY_SECONDS
            for state in self._states.all():
                print(state_line(state), file=self._console.file, flush=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


class _MetricsServer(HTTPServer):
    """One request at a time, for a scraper on this machine."""

    def __init__(self, port: int, states: QueryStates) -> None:
        super().__init__(("127.0.0.1", port), _MetricsRequest)
        self.states = states
        self._thread = threading.Thread(target=self.serve_forever, name="moldau-spark-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _MetricsRequest(BaseHTTPRequestHandler):
    server: _MetricsServer
    timeout = HTTP_TIMEOUT_SECONDS

    def do_GET(self) -> None:
        if not is_loopback_host(self.headers.get("Host", "")):
            # rejects other host names, with which a web page elsewhere could read it
            self.send_error(403)
        elif self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
        else:
            body = metrics_page(self.server.states.all())
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Does not log scrapes."""
