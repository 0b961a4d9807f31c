"""What `/metrics` says of the tasks of a worker. docs/reference/connect-rest.md has the table."""

from __future__ import annotations

from typing import Final

from moldau.products.connect.core.statuses import RUNNING
from moldau.products.connect.worker import Worker
from moldau.transport.exposition import Metric, Samples, labels_text

_LABELS: Final = ("connector", "task")
_TASK: Final = "moldau_connect_task_"
METRICS: Final = (
    Metric(f"{_TASK}running", "gauge", _LABELS, "1 while the task runs, 0 in another state", ""),
    Metric(f"{_TASK}records_total", "counter", _LABELS, "Records, since the start of the process", ""),
    Metric(f"{_TASK}bytes_total", "counter", _LABELS, "Bytes of keys and values; 0 of a pipeline", ""),
    Metric(f"{_TASK}batches_total", "counter", _LABELS, "Batches that are committed", ""),
    Metric(f"{_TASK}lag", "gauge", _LABELS, "Records that a sink has not read", ""),
    Metric(f"{_TASK}memory_bytes", "gauge", _LABELS, "Resident memory of the process and those it has started", ""),
)


def metrics_of(worker: Worker) -> bytes:
    """Of the tasks that run here."""
    samples = Samples(METRICS)
    found = worker.progress
    states = worker.statuses.look(lambda state: {key: state.tasks.get(key) for key in found})
    for (name, task), one in sorted(found.items()):
        labels = labels_text(connector=name, task=task)
        status = states[name, task]
        samples.add(f"{_TASK}running", int(status is not None and status.state == RUNNING), labels)
        samples.add(f"{_TASK}records_total", one.records, labels)
        samples.add(f"{_TASK}bytes_total", one.bytes, labels)
        samples.add(f"{_TASK}batches_total", one.batches, labels)
        if one.lag is not None:
            samples.add(f"{_TASK}lag", one.lag, labels)
        if one.memory_bytes is not None:
            samples.add(f"{_TASK}memory_bytes", one.memory_bytes, labels)
    return samples.render()
