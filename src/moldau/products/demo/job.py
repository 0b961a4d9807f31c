"""The demo from start to verdict: start, send, watch, close, count, draw, compare.

When sending ends, the queries catch up to lag 0. One record for each partition, dated after the watermark's delay,
closes every window. Then everything is read back and compared with the records that were sent, record by record.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec
from rich.console import Console

from moldau.client.admin.topics import create_topic
from moldau.client.protocol.access import RETRY_TIMEOUT_MS, ClusterAccess
from moldau.errors import KafkaError, MoldauError, ProtocolError
from moldau.products.demo import verify
from moldau.products.demo.broker import ChildBroker
from moldau.products.demo.chart import draw_file_chart, draw_metrics_chart
from moldau.products.demo.display import DemoDisplay, DemoView, QueryView
from moldau.products.demo.feed import FeedError, FileFeed, MetricsFeed, send_closing_records
from moldau.products.demo.planted import SOURCE
from moldau.products.demo.queries import (
    WATERMARK_SECONDS,
    WINDOW_SECONDS,
    Output,
    Query,
    start_anomalies,
    start_windows,
)
from moldau.products.pipelines.core.failures import what_failed
from moldau.products.pipelines.running.group import GroupError
from moldau.products.pipelines.running.logs import logs_to
from moldau.transport.access import open_admin, open_client

CLIENT_ID = "moldau-demo"
PARTITIONS = 4
LOOK_SECONDS = 0.2
CATCH_UP_SECONDS = 180.0
OUTPUT_MARK = ".moldau-demo"


class DemoSettings(msgspec.Struct, frozen=True):
    """`output` is emptied first; `file` None: sends the machine's metrics; `access` None: starts its own broker."""

    seconds: int
    output: Path
    file: Path | None = None
    access: ClusterAccess | None = None


class DemoError(MoldauError):
    """The demo could not go on; the message says why."""


def run(settings: DemoSettings, console: Console | None = None) -> int:
    """Returns 0 if all counts match. Raises MoldauError if the demo cannot go on. Call it from the main thread."""
    _make_output(settings.output)
    with _sigterm_is_exit(), logs_to(settings.output / "demo.log"), ExitStack() as stack:
        access = settings.access
        if access is None:
            broker = ChildBroker(settings.output / "broker", settings.output / "broker.log")
            access = ClusterAccess(stack.enter_context(broker).address)
        access = access.named(CLIENT_ID)
        _reach(access)
        job = _Job(settings, access)
        display = stack.enter_context(DemoDisplay(job.facts(), console))
        try:
            job.start()
            job.warm_up(display)
            job.send(display)
            job.close_windows(display)
        finally:
            job.stop()
        differences = job.differences()
        chart = job.draw()
    for difference in differences:
        print(f"DIFFERENT {difference}", flush=True)
    if differences:
        print(f"failed: {len(differences)} differences; everything is kept in {settings.output}", flush=True)
        return 1
    print(f"chart      {chart}")
    print(f"ok: {job.closing_words()}", flush=True)
    return 0


class _Job:
    """The steps of one run, in their order."""

    def __init__(self, settings: DemoSettings, access: ClusterAccess) -> None:
        self._settings = settings
        self._access = access
        run_name = time.strftime("demo-%H%M%S")
        self._topic = f"{run_name}.{'lines' if settings.file else 'metrics'}"
        self._windows_output = self._output(run_name, "windows")
        self._anomalies_output = self._output(run_name, "anomalies")
        self._feed: MetricsFeed | FileFeed
        if settings.file is not None:
            self._feed = FileFeed(access, self._topic, settings.seconds, settings.file)
        else:
            self._feed = MetricsFeed(access, self._topic, settings.seconds)
        self._queries: list[Query] = []
        self._lags: list[int] = [1]  # unknown at first, so not 0
        self._lost_since: float | None = None
        self._began = time.monotonic()
        self._began_at = datetime.now(UTC)
        self._phase = "starting"

    def facts(self) -> list[tuple[str, str]]:
        what = f"lines of {self._settings.file}" if self._settings.file else "this machine's metrics, and a replay"
        whose = "this run's own broker" if self._settings.access is None else "as given"
        outputs = [self._windows_output.topic]
        if self._settings.file is None:
            outputs.append(self._anomalies_output.topic)
        return [
            ("cluster", f"{self._access} ({whose})"),
            ("from", f"{what}, for {self._settings.seconds} s, into topic {self._topic}"),
            ("to", f"topics {', '.join(outputs)}, and Parquet files in {self._settings.output}"),
            ("spark", "starting; without a Java on this machine it brings its own"),
        ]

    def start(self) -> None:
        from moldau.spark import open_session, spark_error

        topics = {self._topic: PARTITIONS, self._windows_output.topic: 2}
        if isinstance(self._feed, MetricsFeed):
            topics[self._anomalies_output.topic] = 1
        _create_topics(self._access, topics)
        # each micro-batch has a small plan: Spark's adaptive re-planning costs more than it can save
        spark = open_session(
            "moldau demo",
            settings={"spark.sql.adaptive.enabled": "false"},
            log_path=self._settings.output / "spark.log",
        )
        of_lines = self._settings.file is not None
        windows, anomalies = self._windows_output, self._anomalies_output
        try:
            self._queries.append(start_windows(spark, self._access, self._topic, windows, of_lines=of_lines))
            if not of_lines:
                self._queries.append(start_anomalies(spark, self._access, self._topic, anomalies))
        except spark_error() as error:
            raise DemoError(f"the queries did not start: {what_failed(str(error))}") from error

    def warm_up(self, display: DemoDisplay) -> None:
        """Sends a few records and waits for their batch before the clock starts: the first batch of a query is many
        times slower than the others."""
        self._phase = "warming up"
        self._feed.open()
        self._until(display, lambda lags: not any(lags))

    def send(self, display: DemoDisplay) -> None:
        """Raises DemoError if the feed or a query fails."""
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self._phase = "sending"
        stop = threading.Event()
        failures: list[BaseException] = []

        def feed() -> None:
            try:
                self._feed.run(stop)
            except (FeedError, OSError) as error:
                failures.append(error)

        thread = threading.Thread(target=feed, name="demo-feed", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                self._look(display)
                thread.join(LOOK_SECONDS)
        finally:
            stop.set()
            thread.join()
        if failures:
            raise DemoError(f"sending failed: {failures[0]}")

    def close_windows(self, display: DemoDisplay) -> None:
        """Waits for lag 0, sends the closing records, and waits until every window is written. Windows that are still
        missing show in the count."""
        self._phase = "catching up"
        self._until(display, lambda lags: not any(lags))
        self._phase = "closing"
        timestamp_ms = time.time_ns() // 1_000_000 + (WATERMARK_SECONDS + 2 * WINDOW_SECONDS) * 1_000
        send_closing_records(self._access, self._topic, PARTITIONS, timestamp_ms)
        windows = self._queries[0]
        self._until(display, lambda lags: not any(lags) and windows.records >= self._feed.sent)

    def stop(self) -> None:
        for query in self._queries:
            query.stop()

    def differences(self) -> list[str]:
        """Reads everything back; returns the differences as sentences."""
        found: list[str] = []
        windows = self._windows_output
        for where, rows in (
            (f"topic {windows.topic}", verify.read_topic(self._access, windows.topic)),
            (f"Parquet {windows.parquet}", verify.read_parquet(windows.parquet)),
        ):
            found += verify.count_differences(where, rows, self._feed.sent, self._feed.counts)
            if isinstance(self._feed, FileFeed):
                found += verify.byte_differences(where, rows, self._feed.bytes_sent)
        if isinstance(self._feed, MetricsFeed):
            anomalies = self._anomalies_output
            for where, rows in (
                (f"topic {anomalies.topic}", verify.read_topic(self._access, anomalies.topic)),
                (f"Parquet {anomalies.parquet}", verify.read_parquet(anomalies.parquet)),
            ):
                found += verify.planted_differences(where, rows, self._feed.plants)
        for query in self._queries:
            behind = verify.group_lag(self._access, query.output.group, self._topic)
            if behind:
                found.append(f"group {query.output.group}: lag {behind:,}")
        return found

    def draw(self) -> Path:
        path = self._settings.output / "chart.png"
        windows = verify.read_parquet(self._windows_output.parquet)
        if isinstance(self._feed, FileFeed):
            title = self._settings.file.name if self._settings.file else ""
            draw_file_chart(path, windows, title=title, began_at=self._began_at)
        else:
            anomalies = verify.read_parquet(self._anomalies_output.parquet)
            draw_metrics_chart(path, windows, anomalies, self._feed.history, began_at=self._began_at)
        return path

    def closing_words(self) -> str:
        where = f"in the windows of the topic and of Parquet alike, lag 0, {self._queries[0].rows:,} windows"
        if isinstance(self._feed, FileFeed):
            levels = ", ".join(f"{level} {count:,}" for level, count in self._feed.counts.most_common())
            return f"{self._feed.sent:,} lines, {self._feed.bytes_sent:,} bytes in them ({levels}), {where}"
        planted = f"{len(self._feed.plants)} of {len(self._feed.plants)} planted anomalies found and no other there"
        return f"{self._feed.sent:,} records sent, {self._feed.sent:,} {where}, {planted}"

    def _output(self, run_name: str, name: str) -> Output:
        return Output(
            name=name,
            topic=f"{run_name}.{name}",
            parquet=self._settings.output / name,
            checkpoint=(self._settings.output / "checkpoints" / name).resolve(),
            group=f"moldau.{run_name}.{name}",
        )

    def _until(self, display: DemoDisplay, is_done: Callable[[Sequence[int]], bool]) -> None:
        deadline = time.monotonic() + CATCH_UP_SECONDS
        pause = threading.Event()
        while not is_done(self._look(display)):
            if time.monotonic() > deadline:
                display.say(f"{self._phase} did not finish within {CATCH_UP_SECONDS:.0f} s")
                return
            pause.wait(LOOK_SECONDS)

    def _look(self, display: DemoDisplay) -> list[int]:
        """Publishes and shows the progress; returns the lags. Raises DemoError for a failed query."""
        for query in self._queries:
            failure = query.error()
            if failure is not None:
                raise DemoError(f"the query {query.output.name} failed: {what_failed(failure)}")
        lags = self._publish(display)
        views = tuple(
            QueryView(
                name=query.output.name,
                records=query.counter.records,
                lag=behind,
                batch_ms=query.counter.batch_ms,
                rows=query.rows,
                rows_are=query.output.name,
            )
            for query, behind in zip(self._queries, lags, strict=False)
        )
        display.show(
            DemoView(
                phase=self._phase,
                elapsed=time.monotonic() - self._began,
                seconds=self._settings.seconds,
                sent=self._feed.sent,
                queries=views,
                newest=self._newest_window(),
                alerts=self._alerts(),
            )
        )
        return lags

    def _publish(self, display: DemoDisplay) -> list[int]:
        """Returns the lags. While the broker is unreachable, returns the last known lags for as long as Spark tries to
        reach it."""
        now = time.monotonic()
        try:
            self._lags = [query.publish(self._topic) for query in self._queries]
            self._lost_since = None
        except GroupError as error:
            if self._lost_since is None:
                self._lost_since = now
                display.say(f"the broker is lost, trying again: {error}")
            if (now - self._lost_since) * 1_000 > RETRY_TIMEOUT_MS:
                raise
        return self._lags

    def _newest_window(self) -> tuple[tuple[str, str], ...]:
        latest = {str(row["key"]): row for row in self._queries[0].shown() if not row["key"].startswith(SOURCE)}
        if isinstance(self._feed, FileFeed):
            return tuple((key, f"{row['records']:,} lines") for key, row in sorted(latest.items()))[:8]
        return tuple(
            (key.removeprefix("machine/"), f"{row['mean']:8.1f}  ({row['minimum']:.1f} to {row['maximum']:.1f})")
            for key, row in sorted(latest.items())
        )[:8]

    def _alerts(self) -> tuple[str, ...]:
        rows = [row for query in self._queries[1:] for row in query.shown()]
        # anomalies of planted keys come last and stay in sight: the run is about them
        rows.sort(key=lambda row: row["key"].startswith(SOURCE))
        return tuple(
            f"{row['key']} = {row['value']:,.4g}, {row['sigmas']:+.1f} deviations from {row['mean']:,.4g}"
            for row in rows
        )


def _reach(access: ClusterAccess) -> None:
    """Raises DemoError with one sentence if no broker answers; Spark and the other clients would print many."""
    try:
        with open_client(access) as client:
            client.retry(client.any_connection)
    except (KafkaError, ProtocolError) as error:
        raise DemoError(str(error)) from error


def _create_topics(access: ClusterAccess, topics: Mapping[str, int]) -> None:
    """Creates topics with these numbers of partitions. Raises DemoError."""
    with open_admin(access) as admin:
        for topic, partitions in topics.items():
            try:
                create_topic(admin, topic, partitions=partitions, replication_factor=1)
            except (KafkaError, ProtocolError) as error:
                raise DemoError(f"topic {topic} was not created: {error}") from error


def _make_output(output: Path) -> None:
    """Makes an empty directory with a mark file. Raises DemoError for a directory that no demo made, and does not empty
    it."""
    if output.exists():
        if not (output / OUTPUT_MARK).is_file() and (not output.is_dir() or any(output.iterdir())):
            raise DemoError(f"{output} is there and no demo made it; give another --output")
        shutil.rmtree(output)
    output.mkdir(parents=True)
    (output / OUTPUT_MARK).write_text("made by `moldau demo`, which empties this directory when it runs again\n")


@contextmanager
def _sigterm_is_exit() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: it stops the processes that it started."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
