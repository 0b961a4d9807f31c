"""The states of streaming queries from Spark's progress reports, as a table and as metrics. Does not import pyspark.

`offsets behind the latest`: for each partition, the distance from the end of the last batch to the latest offset that
the source saw when that batch was planned. Spark's own Kafka connector reports their minimum, maximum and average as
metrics of the source (minOffsetsBehindLatest and so on). A Python source cannot, so they are computed here, for both
connectors.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from moldau.transport.exposition import Metric, Samples, labels_text
from moldau.types import TopicPartition

MOST_QUERIES = 100
"""The most queries that are kept; ended queries are dropped first."""

_TABLE = (
    Metric("moldau_spark_query_running", "gauge", ("query",), "1 while the query runs, 0 after its end", ""),
    Metric("moldau_spark_query_batches_total", "counter", ("query",), "Micro-batches finished", ""),
    Metric("moldau_spark_query_records_total", "counter", ("query",), "Records read by finished micro-batches", ""),
    Metric("moldau_spark_query_input_records_per_second", "gauge", ("query",), "Rate at which records arrived", ""),
    Metric("moldau_spark_query_processed_records_per_second", "gauge", ("query",), "Rate of processing", ""),
    Metric("moldau_spark_query_batch_seconds", "gauge", ("query",), "Time that the last micro-batch took", ""),
    Metric("moldau_spark_query_phase_seconds", "gauge", ("query", "phase"), "Of the last micro-batch, by phase", ""),
    Metric("moldau_spark_query_state_rows", "gauge", ("query",), "Rows that stateful operators keep", ""),
    Metric("moldau_spark_query_state_bytes", "gauge", ("query",), "Memory of what stateful operators keep", ""),
    Metric("moldau_spark_query_late_rows_total", "counter", ("query",), "Rows dropped after the watermark passed", ""),
    Metric(
        "moldau_spark_query_end_offset", "gauge", ("query", "topic", "partition"), "End of the last micro-batch", ""
    ),
    Metric("moldau_spark_query_latest_offset", "gauge", ("query", "topic", "partition"), "Latest offset seen", ""),
    Metric(
        "moldau_spark_query_offsets_behind_latest",
        "gauge",
        ("query", "topic", "partition"),
        "Latest less end offset",
        "",
    ),
)

PHASES = {
    "latest": ("latestOffset",),
    "plan": ("getBatch", "queryPlanning"),
    "work": ("addBatch",),
    "checkpoint": ("walCommit", "commitOffsets"),
    "other": (),
}
"""The phases of a micro-batch, with Spark's names: asking the sources for their latest offsets; planning; reading,
computing and writing the rows (one phase in Spark); writing the two checkpoint files; and the remaining time. Their sum
is the duration of the batch."""


class Bounds(msgspec.Struct, frozen=True):
    """One partition's end of the last batch, and its latest offset at that time."""

    end: int
    latest: int

    @property
    def behind(self) -> int:
        return max(0, self.latest - self.end)


def input_rows(progress: Mapping[str, Any]) -> int:
    """The rows of all sources. A report of a Spark Connect server does not have their sum."""
    return sum(source["numInputRows"] for source in progress.get("sources", ()))


def observed_row(progress: Mapping[str, Any], metric: str) -> Mapping[str, Any] | None:
    """The values of `DataFrame.observe` with that name in a batch; None if the batch did not compute them."""
    row = progress["observedMetrics"].get(metric)
    if row is None:
        return None
    fields = dict(row.asDict())
    # pyspark mistakes the two parts of a Spark Connect server's row for its columns
    if fields.keys() == {"values", "schema"}:
        return {field["name"]: value for field, value in zip(fields["schema"]["fields"], fields["values"], strict=True)}
    return fields


class QueryState(msgspec.Struct, frozen=True):
    """One query. Rates are in records per second, as Spark reports them. `error`: the first line of the error that
    ended the query."""

    name: str
    is_running: bool = True
    error: str | None = None
    batch_id: int = -1
    batches: int = 0
    records: int = 0
    input_rate: float = 0.0
    processed_rate: float = 0.0
    batch_ms: int = 0
    phases_ms: dict[str, int] = {}
    """Of the last batch, by PHASES."""
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    """Rows that all batches dropped because of the watermark."""
    partitions: dict[TopicPartition, Bounds] = {}

    @property
    def behind(self) -> int:
        """Offsets behind the latest, in total for all partitions."""
        return sum(bounds.behind for bounds in self.partitions.values())

    @property
    def most_behind(self) -> tuple[TopicPartition, int] | None:
        """The partition that is furthest behind; None if all are read to their latest offset."""
        partition = max(self.partitions, key=lambda one: self.partitions[one].behind, default=None)
        if partition is None or not self.partitions[partition].behind:
            return None
        return partition, self.partitions[partition].behind

    def after(self, progress: Mapping[str, Any]) -> QueryState:
        """The state after one of Spark's reports (StreamingQueryProgress as JSON)."""
        is_batch = progress["batchId"] > self.batch_id and "addBatch" in progress.get("durationMs", {})
        partitions = dict(self.partitions)
        for source in progress.get("sources", ()):
            partitions.update(_bounds(source, partitions))
        rows = input_rows(progress)
        operators = progress.get("stateOperators", ())
        late = sum(operator.get("numRowsDroppedByWatermark", 0) for operator in operators)
        return msgspec.structs.replace(
            self,
            batch_id=progress["batchId"] if is_batch else self.batch_id,
            batches=self.batches + is_batch,
            records=self.records + (rows if is_batch else 0),
            input_rate=float(progress.get("inputRowsPerSecond") or 0.0),
            processed_rate=float(progress.get("processedRowsPerSecond") or 0.0),
            batch_ms=int(progress.get("batchDuration") or 0) if is_batch else self.batch_ms,
            phases_ms=_phases(progress) if is_batch else self.phases_ms,
            # before the first batch of a restarted query, Spark reports no operators
            state_rows=sum(one.get("numRowsTotal", 0) for one in operators) if is_batch else self.state_rows,
            state_bytes=sum(one.get("memoryUsedBytes", 0) for one in operators) if is_batch else self.state_bytes,
            late_rows=self.late_rows + (late if is_batch else 0),
            partitions=partitions,
        )


class QueryStates:
    """All queries by the id of their run. Thread-safe, because Spark reports in another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, QueryState] = {}

    def started(self, run_id: str, name: str | None) -> None:
        with self._lock:
            self._states[run_id] = QueryState(name or run_id[:8])
            ended = [one for one, state in self._states.items() if not state.is_running]
            for one in [*ended, *self._states][: max(0, len(self._states) - MOST_QUERIES)]:
                self._states.pop(one, None)

    def progressed(self, run_id: str, progress: Mapping[str, Any]) -> None:
        with self._lock:
            state = self._states.get(run_id) or QueryState(progress.get("name") or run_id[:8])
            self._states[run_id] = state.after(progress)

    def ended(self, run_id: str, error: str | None) -> None:
        with self._lock:
            if run_id in self._states:
                first = error.strip().partition("\n")[0] if error else None
                self._states[run_id] = msgspec.structs.replace(self._states[run_id], is_running=False, error=first)

    def all(self) -> list[QueryState]:
        """In the order of their start. Only the newest run of a restarted query."""
        with self._lock:
            return list({state.name: state for state in self._states.values()}.values())


def metrics_page(states: list[QueryState]) -> bytes:
    """The states in Prometheus' text format."""
    out = Samples(_TABLE)
    for state in states:
        labels = labels_text(query=state.name)
        out.add("moldau_spark_query_running", int(state.is_running), labels)
        out.add("moldau_spark_query_batches_total", state.batches, labels)
        out.add("moldau_spark_query_records_total", state.records, labels)
        out.add("moldau_spark_query_input_records_per_second", state.input_rate, labels)
        out.add("moldau_spark_query_processed_records_per_second", state.processed_rate, labels)
        out.add("moldau_spark_query_batch_seconds", state.batch_ms / 1_000, labels)
        for phase, spent_ms in state.phases_ms.items():
            phase_labels = labels_text(query=state.name, phase=phase)
            out.add("moldau_spark_query_phase_seconds", spent_ms / 1_000, phase_labels)
        out.add("moldau_spark_query_state_rows", state.state_rows, labels)
        out.add("moldau_spark_query_state_bytes", state.state_bytes, labels)
        out.add("moldau_spark_query_late_rows_total", state.late_rows, labels)
        for one, bounds in sorted(state.partitions.items()):
            labels = labels_text(query=state.name, topic=one.topic, partition=one.partition)
            out.add("moldau_spark_query_end_offset", bounds.end, labels)
            out.add("moldau_spark_query_latest_offset", bounds.latest, labels)
            out.add("moldau_spark_query_offsets_behind_latest", bounds.behind, labels)
    return out.render()


def states_table(states: list[QueryState]) -> Table:
    """For people, one row for each query."""
    table = Table(title="streaming queries")
    for name in ("query", "state", "batches", "records", "in/s", "processed/s", "last batch", "behind", "most behind"):
        table.add_column(name, justify="left" if name in ("query", "state", "most behind") else "right")
    for state in states:
        worst = state.most_behind
        table.add_row(
            Text(state.name),
            Text("running" if state.is_running else state.error or "ended", style="red" if state.error else ""),
            f"{state.batches:,}",
            f"{state.records:,}",
            f"{state.input_rate:,.0f}",
            f"{state.processed_rate:,.0f}",
            f"{state.batch_ms:,} ms",
            f"{state.behind:,}",
            Text("" if worst is None else f"{worst[0]}: {worst[1]:,}"),
        )
    return table


def state_line(state: QueryState) -> str:
    """One state as a line of a log."""
    return (
        f"{state.name}: {'running' if state.is_running else 'ended'}, batch {state.batches:,}, read {state.records:,} "
        f"records, {state.input_rate:,.0f}/s in, {state.processed_rate:,.0f}/s processed, last batch "
        f"{state.batch_ms:,} ms, behind {state.behind:,}" + (f"; {state.error}" if state.error else "")
    )


def _phases(progress: Mapping[str, Any]) -> dict[str, int]:
    durations = progress["durationMs"]
    named = {phase: sum(durations.get(name, 0) for name in names) for phase, names in PHASES.items()}
    return named | {"other": max(0, int(progress.get("batchDuration") or 0) - sum(named.values()))}


def _bounds(source: Mapping[str, Any], before: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, Bounds]:
    """Empty for a source without topic offsets. A report without latest offsets keeps the previous ones."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    seen = {one: bounds.latest for one, bounds in before.items()} | latest
    return {one: Bounds(end[one], seen.get(one, end[one])) for one in end}


def _offsets(nested: object) -> dict[TopicPartition, int]:
    if not isinstance(nested, dict):
        return {}
    return {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in nested.items()
        if not topic.startswith("@") and isinstance(partitions, dict)
        for number, offset in partitions.items()
        if number.isdecimal() and isinstance(offset, int)
    }
