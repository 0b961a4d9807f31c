"""Records the operations of clients and their results, and judges whether the cluster kept its promises.

    with history.record("orders.jsonl") as recorder:
        producer = recorder.producer({"bootstrap.servers": cluster.bootstrap_servers})
        ...
    verdict = history.judge(history.HistoryFile("orders.jsonl"))
    assert not verdict.findings, verdict

docs/reference/history.md lists the findings and describes the file.

committed_offsets: possible committed offsets of a group
copies: whether a topic is a copy
cycles: cycles of transactions
events: the lines of a history
evidence: folds lines into the input of rules
file: a history as a file
findings: findings and their proof
judge: the judge
logs: records by partition and offset
naming: names of records
readers: the path of a consumer through partitions
recorded_consumer: a consumer that records
recorded_producer: a producer that records
recorder: `record`
records: rules of single records
session: shared state of recorded clients
timeline: a history as a picture
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
