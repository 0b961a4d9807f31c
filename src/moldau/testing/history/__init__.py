"""Records what clients of a cluster did and saw, and judges whether the cluster kept its promises.

    with history.record("orders.jsonl") as recorder:
        producer = recorder.producer({"bootstrap.servers": cluster.bootstrap_servers})
        ...
    verdict = history.judge(history.HistoryFile("orders.jsonl"))
    assert not verdict.findings, verdict

docs/reference/history.md lists the findings and describes the file.
"""

from __future__ import annotations

from moldau.testing.history.copies import Copy
from moldau.testing.history.events import Event
from moldau.testing.history.file import HistoryError, HistoryFile
from moldau.testing.history.findings import Finding, Kind, Step, Verdict
from moldau.testing.history.judge import judge
from moldau.testing.history.recorder import Recorder, record
from moldau.testing.history.timeline import timeline

__all__ = [
    "Copy",
    "Event",
    "Finding",
    "HistoryError",
    "HistoryFile",
    "Kind",
    "Recorder",
    "Step",
    "Verdict",
    "judge",
    "record",
    "timeline",
]
