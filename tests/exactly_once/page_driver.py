"""A driver that runs a page of several targets to its end, and kills itself at a named point: `python -m
tests.exactly_once.page_driver PAGE`.

The killing wraps the targets' own functions here, in the driver. Each query that has come to the point waits there for
the others; then JVM and driver are killed with -9 at once, so that one life tries the point with every target. A line
is printed for each batch that Spark has noted as finished in this life, and one when the whole source is read.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from moldau.products.pipelines.page.page import PipelinePage, load_page
from moldau.products.pipelines.running.runner import run_pipeline
from moldau.products.pipelines.sources import topic
from moldau.products.pipelines.targets.target import Target
from moldau.products.pipelines.targets.topic import TopicTarget
from moldau.spark import open_session, source
from moldau.spark.sink import TopicBatchWriter
from moldau.spark.source import TopicDataSource
from tests.exactly_once.spark_driver import AT_END, BATCH, JVM, Killer, newest_commit
from tests.exactly_once.tables import KINDS

POINTS = ("before the write", "before the commit", "before Spark's commit log", "after Spark's commit log")
PATIENCE_S = 180.0
"""A query that waits so long for the others goes on: the life then ends without a kill, which the caller sees."""


class Meeting:
    """Where the queries wait for each other. The batch that each thread writes is its own."""

    def __init__(self, killer: Killer, queries: int) -> None:
        self.killer = killer
        self.batch = threading.local()
        self._barrier = threading.Barrier(queries, action=self._kill)

    def wait_for_others(self, point: str) -> None:
        """Returns when all other queries have come to the point, if it counts in this batch."""
        pause = threading.Event()
        end_s = time.monotonic() + PATIENCE_S
        while self.counts(point) and self._barrier.n_waiting < self._barrier.parties - 1 and time.monotonic() < end_s:
            pause.wait(0.02)

    def counts(self, point: str) -> bool:
        return point == self.killer.point and self.batch.number >= self.killer.batch_id

    def reach(self, point: str) -> None:
        if self.counts(point):
            self._barrier.wait(PATIENCE_S)

    def _kill(self) -> None:
        self.killer.reach(str(self.killer.point), self.killer.batch_id)


def meet_in(target: type[Target], meeting: Meeting) -> None:
    """The first and the third point, in the writer of this kind of target."""
    make_writer = target.writer

    def writer(self: Target, query: Any) -> Callable[[Any, int], None]:
        write = make_writer(self, query)

        def write_and_meet(batch: Any, batch_id: int) -> None:
            meeting.batch.number = batch_id
            meeting.reach(POINTS[0])
            if target is TopicTarget:
                # the process that commits kills all of them
                meeting.wait_for_others(POINTS[1])
            write(batch, batch_id)
            meeting.reach(POINTS[2])

        return write_and_meet

    target.writer = writer  # type: ignore[method-assign]


def meet_behind(middle: tuple[str, str], meeting: Meeting) -> None:
    """The second point."""
    module, name = importlib.import_module(middle[0]), middle[1]
    act = getattr(module, name)

    def act_and_meet(*arguments: Any) -> Any:
        done = act(*arguments)
        meeting.reach(POINTS[1])
        return done

    setattr(module, name, act_and_meet)


class MortalWriter(TopicBatchWriter):
    """The second point of a topic: Spark commits in a Python process of its own. All others are at the meeting."""

    victims: tuple[int, ...]
    first_batch: int

    def commit(self, messages: Any) -> None:
        if (self.options.batch_id or 0) >= self.first_batch:
            for process in (*self.victims, os.getpid()):
                os.kill(process, signal.SIGKILL)
        super().commit(messages)


class MortalDataSource(TopicDataSource):
    victims: tuple[int, ...]
    first_batch: int

    def writer(self, schema: Any, overwrite: bool) -> Any:
        writer = MortalWriter(self._sink_options(), schema, overwrite=overwrite)
        writer.victims, writer.first_batch = self.victims, self.first_batch
        return writer


def tell_of_batches(page: PipelinePage, killer: Killer) -> None:
    """The last point, in a thread of its own."""
    told, pause = [newest_commit(query.checkpoint) for query in page.queries], threading.Event()
    while not pause.wait(0.02):
        noted = [newest_commit(query.checkpoint) for query in page.queries]
        for query, before, now in zip(page.queries, told, noted, strict=True):
            for number in range(before + 1, now + 1):
                print(BATCH, number, query.name, flush=True)
        told = noted
        killer.reach(POINTS[3], min(noted))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("--point", choices=POINTS)
    parser.add_argument("--batch", type=int, default=0, help="the first one in which the point counts")
    parser.add_argument("--records-per-batch", type=int, default=1_000)
    parser.add_argument("--setting", action="append", default=[], help="of Spark: name=value")
    arguments = parser.parse_args()
    page = load_page(arguments.page)
    spark = open_session("mortal", dict(setting.split("=", 1) for setting in arguments.setting), cores=2)
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    print(JVM, jvm, flush=True)
    killer = Killer(arguments.point, arguments.batch, (jvm, os.getpid()))
    if arguments.point == POINTS[1]:
        known = {"victims": killer.processes, "first_batch": arguments.batch}
        source.TopicDataSource = type("MortalDataSource", (MortalDataSource,), known)  # type: ignore[misc]
    topic.MAX_OFFSETS_PER_TRIGGER = arguments.records_per_batch
    meeting = Meeting(killer, len(page.queries))
    for target in dict.fromkeys(type(query.target) for query in page.queries):
        meet_in(target, meeting)
    for middle in dict.fromkeys(kind.middle for kind in KINDS.values() if kind.middle):
        meet_behind(middle, meeting)
    threading.Thread(target=tell_of_batches, args=(page, killer), daemon=True).start()
    with open(os.devnull, "w") as nowhere:
        run_pipeline(page, once=True, console=Console(file=nowhere))
    print(AT_END, flush=True)


if __name__ == "__main__":
    sys.exit(main())
