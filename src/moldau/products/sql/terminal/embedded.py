"""An engine in this process, with the Spark session that it needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console

from moldau.products.pipelines.running.logs import logs_to
from moldau.products.pipelines.running.runner import DRIVER_LOG
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.engine.answers import Answer, QueryStatus
from moldau.products.sql.engine.engine import Engine, EngineSettings
from moldau.products.sql.engine.function_files import load_functions
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import Parsed
from moldau.spark import open_session
from moldau.spark.queries.supervision import LOOK_SECONDS


class EmbeddedEngine:
    """A SqlService. A thread supervises the queries within the context."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="sql-supervision", daemon=True)

    def __enter__(self) -> EmbeddedEngine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self.engine.close()

    @property
    def catalog(self) -> Catalog:
        return self.engine.catalog

    def run(self, parsed: Parsed, session: Session) -> Answer:
        return self.engine.run(parsed, session)

    def statuses(self) -> Sequence[QueryStatus]:
        return self.engine.statuses()

    def _supervise(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            self.engine.supervise()


@contextmanager
def open_engine(
    settings: EngineSettings, spark_settings: Mapping[str, str], functions: Sequence[Path], console: Console
) -> Iterator[EmbeddedEngine]:
    """Starts Spark; its output goes to a file among the checkpoints. `functions`: files of Python functions.
    `console`: says that it starts. Raises OSError, SparkStartError, FunctionFileError."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    log = settings.directory / DRIVER_LOG
    with logs_to(log):
        with console.status("Spark starts"):
            spark = open_session("moldau-sql", spark_settings, log_path=log)
        settings = msgspec.structs.replace(settings, functions=load_functions(spark, functions))
        with EmbeddedEngine(Engine(spark, settings)) as embedded:
            yield embedded


def summary(statuses: Sequence[QueryStatus]) -> str:
    """How many queries are in which state: one line."""
    counts: dict[str, int] = {}
    for status in statuses:
        counts[status.state] = counts.get(status.state, 0) + 1
    if not counts:
        return "no persistent queries"
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    failed = next((one for one in statuses if one.error), None)
    return f"queries: {states}" + (f" · {failed.query.id}: {failed.error}" if failed is not None else "")
