"""A driver that runs a pipeline of several targets to its end, and kills itself at a named point: `python -m
tests.exactly_once.pipeline_driver SPEC`.

The kill is in wrappers of the targets' own functions, in the driver and in the Python processes of Spark. Each query
that has reached the point waits there for the others. Then JVM, driver and the waiting processes are killed with -9 at
once: one life tries the point with every target. The driver prints a line for each batch that Spark has recorded as
finished in this life, and one when the whole source is read.

With `--copy TOPIC` the driver also copies the pipeline's first topic by a query of format("moldau") alone. A copy has
more points, inside its transaction: INNER_POINTS has those of the first and the second copy.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from moldau.products.pipelines.running.runner import run_pipeline
from moldau.products.pipelines.sources import topic
from moldau.products.pipelines.spec.spec import PipelineSpec, load_spec
from moldau.products.pipelines.targets.target import Target, TargetQuery
from moldau.spark import QUICK_START, open_session
from moldau.spark.sink.sink import TopicBatchWriter
from moldau.spark.source import source
from moldau.spark.source.source import TopicDataSource
from tests.exactly_once import spark_driver
from tests.exactly_once.spark_driver import AT_END, BATCH, JVM, newest_commit, start_copy
from tests.exactly_once.tables import KINDS

if TYPE_CHECKING:
    from moldau.spark import SparkSession, StreamingQuery

POINTS = ("before the write", "before the commit", "before Spark's commit log", "after Spark's commit log")
INNER_POINTS: Sequence[Mapping[str, str]] = (
    {
        "before the first produce": POINTS[0],
        "before EndTxn": POINTS[1],
        "before Spark's commit log": POINTS[2],
    },
    {
        "after the first produce": POINTS[0],
        "after EndTxn": POINTS[1],
        "before Spark's commit log": POINTS[2],
    },
)
"""For each copy: the points of `spark_driver` at which it dies, and in which life."""
PATIENCE_S = 400.0
"""A query that waits so long for the others continues: the life then ends without a kill, which the caller sees."""
TASKS = 8
"""Concurrent tasks: those of the copies wait in the middle of their work, while the others must reach the point."""


class Meeting:
    """Where the queries wait for each other, each in its own process or in the driver: each leaves a file in `folder`
    when it has come. `processes`: those that die then, in addition to all that wait."""

    def __init__(self, point: str | None, batch_id: int, processes: Sequence[int], folder: str, queries: int) -> None:
        self.point, self.batch_id, self.processes = point, batch_id, processes
        self.folder, self.queries = folder, queries

    def reach(self, point: str, batch_id: int, query: str) -> None:
        """Dies when all other queries have reached the point; returns at once if it does not count in this batch."""
        if point != self.point or batch_id < self.batch_id:
            return
        Path(self.folder, query).touch()
        pause, end_s = threading.Event(), time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            if len(os.listdir(self.folder)) >= self.queries:
                self.kill()
            pause.wait(0.02)

    def kill(self) -> None:
        for process in (*self.processes, os.getpid()):
            with suppress(ProcessLookupError):  # another waiting process was faster
                os.kill(process, signal.SIGKILL)


class InnerMeeting:
    """The copy's writer uses it as its killer."""

    def __init__(self, meeting: Meeting, name: str, points: Mapping[str, str]) -> None:
        self.meeting, self.name, self.points = meeting, name, points

    def reach(self, point: str, batch_id: int) -> None:
        if point in self.points:
            self.meeting.reach(self.points[point], batch_id, self.name)


class CurrentBatch(threading.local):
    """The state of a thread: the number of a batch, and the name of its query."""

    number = -1
    query = ""


def meet_in(target: type[Target], meeting: Meeting, current: CurrentBatch) -> None:
    """The first and the third point, in the writer of this kind of target."""
    make_writer = target.writer

    def writer(self: Target, query: TargetQuery) -> Callable[[Any, int], None]:
        write = make_writer(self, query)

        def write_and_meet(batch: Any, batch_id: int) -> None:
            current.number, current.query = batch_id, query.pipeline
            meeting.reach(POINTS[0], batch_id, query.pipeline)
            write(batch, batch_id)
            meeting.reach(POINTS[2], batch_id, query.pipeline)

        return write_and_meet

    target.writer = writer  # type: ignore[method-assign]


def meet_behind(middle: tuple[str, str], meeting: Meeting, current: CurrentBatch) -> None:
    """The second point."""
    module, name = importlib.import_module(middle[0]), middle[1]
    act = getattr(module, name)

    def act_and_meet(*arguments: Any) -> Any:
        done = act(*arguments)
        meeting.reach(POINTS[1], current.number, current.query)
        return done

    setattr(module, name, act_and_meet)


class MortalWriter(TopicBatchWriter):
    """The second point of a pipeline's topic: Spark commits in a separate Python process."""

    meeting: Meeting

    def commit(self, messages: Any) -> None:
        self.meeting.reach(POINTS[1], self.options.batch_id or 0, str(self.options.topic))
        super().commit(messages)


class MortalDataSource(TopicDataSource):
    """`killers`: of the copies, by their topics."""

    meeting: Meeting
    killers: Mapping[str, InnerMeeting]

    def writer(self, schema: Any, overwrite: bool) -> Any:
        writer = MortalWriter(self._sink_options(), schema, overwrite=overwrite)
        writer.meeting = self.meeting
        return writer

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        options = self._sink_options()
        writer = spark_driver.MortalWriter(options, schema)
        writer.killer = self.killers[str(options.topic)]
        return writer


def tell_of_batches(checkpoints: Mapping[str, Path], meeting: Meeting) -> None:
    """The last point, in its own thread. `checkpoints`: of the queries, by their names."""
    pause = threading.Event()
    told = {name: newest_commit(checkpoint) for name, checkpoint in checkpoints.items()}
    while not pause.wait(0.02):
        noted = {name: newest_commit(checkpoint) for name, checkpoint in checkpoints.items()}
        for name, now in noted.items():
            for number in range(told[name] + 1, now + 1):
                print(BATCH, number, name, flush=True)
        told = noted
        if meeting.point == POINTS[3] and min(noted.values()) >= meeting.batch_id:
            meeting.kill()


def copy_checkpoint(spec: PipelineSpec, topic: str) -> Path:
    """Of the query that copies to this topic."""
    return spec.checkpoint.with_name(f"copy to {topic}")


def start_copies(
    spark: SparkSession, spec: PipelineSpec, topics: Sequence[str], records_per_batch: int
) -> list[StreamingQuery]:
    """Starts a query for each of these topics, which copies the pipeline's first source topic to its end."""
    subscribed = str(next(spec.queries[0].topics()).topic)
    return [
        start_copy(spark, str(spec.access), subscribed, one, copy_checkpoint(spec, one), records_per_batch)
        for one in topics
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("--point", choices=POINTS)
    parser.add_argument("--batch", type=int, default=0, help="the first one in which the point counts")
    parser.add_argument("--records-per-batch", type=int, default=1_000)
    parser.add_argument("--setting", action="append", default=[], help="of Spark: name=value")
    parser.add_argument("--copy", action="append", default=[], metavar="TOPIC", help="up to two")
    arguments = parser.parse_args()
    spec = load_spec(arguments.spec)
    threads = {"spark.master": f"local[{TASKS}]", "spark.sql.shuffle.partitions": "2"}
    settings = dict(setting.split("=", 1) for setting in arguments.setting)
    spark = open_session("mortal", QUICK_START | threads | settings)
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    print(JVM, jvm, flush=True)
    checkpoints = {query.name: query.checkpoint for query in spec.queries}
    checkpoints |= {one: copy_checkpoint(spec, one) for one in arguments.copy}
    folder = tempfile.mkdtemp(prefix="meeting-", dir=spec.checkpoint.parent)
    meeting = Meeting(arguments.point, arguments.batch, (jvm, os.getpid()), folder, len(checkpoints))
    killers = {
        one: InnerMeeting(meeting, one, points) for one, points in zip(arguments.copy, INNER_POINTS, strict=False)
    }
    known = {"meeting": meeting, "killers": killers}
    source.TopicDataSource = type("MortalDataSource", (MortalDataSource,), known)  # type: ignore[misc]
    source.register(spark)
    topic.MAX_OFFSETS_PER_TRIGGER = arguments.records_per_batch
    current = CurrentBatch()
    for target in dict.fromkeys(type(query.target) for query in spec.queries):
        meet_in(target, meeting, current)
    for middle in dict.fromkeys(kind.middle for kind in KINDS.values() if kind.middle):
        meet_behind(middle, meeting, current)
    threading.Thread(target=tell_of_batches, args=(checkpoints, meeting), daemon=True).start()
    copies = start_copies(spark, spec, arguments.copy, arguments.records_per_batch)
    with open(os.devnull, "w") as nowhere:
        run_pipeline(spec, once=True, console=Console(file=nowhere))
    for query in copies:
        query.awaitTermination()
    print(AT_END, flush=True)


if __name__ == "__main__":
    sys.exit(main())
