"""Runs the tests of pipeline files in one Spark session, without a broker and without checkpoints.

The result of a target is the output of the real query: the same views and mode, over finite streams of files in place
of topics. So the watermark closes windows, and each record has its own time. The result of a flow is its view over all
given records, as a batch.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moldau.errors import MoldauError
from moldau.products.pipelines.core.case import Case, Expected, Row, compare
from moldau.products.pipelines.core.failures import what_failed
from moldau.products.pipelines.formats.given import json_text
from moldau.products.pipelines.running.flow import make_result, make_views, rows_of, state_store_for
from moldau.products.pipelines.sources.source import Source
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.spark import QUICK_START, available_cores, open_session, spark_error

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

_FIRST_FILE_S = 1_000_000_000
"""Files of a stream are read in the order of their modification times."""


def failures_of(spec: PipelineSpec, case: Case) -> list[str]:
    """For each unexpected result, a sentence with the line of the pipeline file, and the rows. Empty if the test
    passes.

    Raises FlowError, SparkStartError.
    """
    return _failures_in(_open_session(), spec, case)


def run_cases(cases: Sequence[tuple[PipelineSpec, Case]]) -> Iterator[tuple[list[str], float]]:
    """`failures_of` each case, in order, and the seconds that it took. Runs as many at once as there are cores. Raises
    as `failures_of`."""
    spark = _open_session()

    def run(spec: PipelineSpec, case: Case) -> tuple[list[str], float]:
        began = time.monotonic()
        return _failures_in(spark, spec, case), time.monotonic() - began

    with ThreadPoolExecutor(available_cores(), "case") as pool:
        waiting = [pool.submit(run, spec, case) for spec, case in cases]
        try:
            yield from (one.result() for one in waiting)
        finally:
            pool.shutdown(cancel_futures=True)


def _open_session() -> SparkSession:
    return open_session("moldau-pipeline-test", QUICK_START)


def _failures_in(session: SparkSession, spec: PipelineSpec, case: Case) -> list[str]:
    # a new session does not touch views and settings of another test, or of the caller
    spark = session.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spec = _offline(spec)
    with tempfile.TemporaryDirectory(prefix="moldau-test-") as directory:
        given: dict[str, _Given] = {}
        for name, source in spec.sources().items():
            try:
                given[name] = _Given(source, Path(directory) / name, case.given.get(name, ()))
            except MoldauError as error:
                return [f"{spec.file_name}:{case.line}: the records of `{name}` cannot be given: {error}"]
        return [failure for one in case.expected for failure in _failures(spark, spec, given, Path(directory), one)]


def _offline(spec: PipelineSpec) -> PipelineSpec:
    """With sources that need no registry for a schema in a file."""
    queries = [
        msgspec.structs.replace(query, sources={name: source.offline() for name, source in query.sources.items()})
        for query in spec.queries
    ]
    return msgspec.structs.replace(spec, queries=tuple(queries))


class _Given:
    """The records of one source, as files, which replace `Source.load`."""

    def __init__(self, source: Source, directory: Path, batches: Sequence[Sequence[object]]) -> None:
        self._source = source
        self._directory = directory
        directory.mkdir()
        first = 0
        for number, records in enumerate(batches):
            path = directory / f"{number:06}.json"
            rows = source.given(records, first)
            first += len(records)
            path.write_text("".join(f"{json_text(row)}\n" for row in rows), "utf-8")
            os.utime(path, (_FIRST_FILE_S + number, _FIRST_FILE_S + number))

    def load(self, spark: SparkSession, *, is_stream: bool) -> DataFrame:
        # by default, Spark silently reads an invalid time or partition number as null
        if is_stream and not self._source.as_table:
            files = spark.readStream.schema(self._source.GIVEN_COLUMNS).option("maxFilesPerTrigger", "1")
            return files.json(str(self._directory), mode="FAILFAST")
        return spark.read.schema(self._source.GIVEN_COLUMNS).json(str(self._directory), mode="FAILFAST")


def _failures(
    spark: SparkSession, spec: PipelineSpec, given: Mapping[str, _Given], directory: Path, expected: Expected
) -> Iterator[str]:
    where = f"{spec.file_name}:{expected.line}: `{expected.name}`"
    query = next((query for query in spec.queries if query.step.target.name == expected.name), None)
    views = make_views(spark, spec, {name: one.load(spark, is_stream=query is not None) for name, one in given.items()})
    try:
        if query is None:
            found = rows_of(views[expected.name], Decimal)
        else:
            found = _written(spark, spec, query, views, directory / f"{expected.name}.checkpoint")
    except (*spark_error(), MoldauError) as error:  # type: ignore[misc]
        yield f"{where}: {what_failed(str(error))}"
        return
    difference = compare(expected.rows, found)
    if difference is not None:
        yield "\n".join([f"{where} has other rows", *(f"  {line}" for line in difference.lines())])


def _written(
    spark: SparkSession, spec: PipelineSpec, query: PipelineQuery, views: Mapping[str, DataFrame], checkpoint: Path
) -> list[Row]:
    """The rows of every micro-batch."""
    rows: list[Row] = []
    make_result(spec, query, views)  # rejects the query if a real run would
    stream = query.target.newest(views[query.step.target.reads]).writeStream.outputMode(query.target.mode)
    stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    with state_store_for(spark, query.step.flows):
        running = stream.foreachBatch(lambda batch, _: rows.extend(rows_of(batch, Decimal))).start()
    running.awaitTermination()
    return rows
