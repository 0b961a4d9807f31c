"""What a task of Spark reports to the process of the connector: one object, as the only column of a row."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from moldau.spark.definitions.data_sources import cloudpickle

if TYPE_CHECKING:
    from moldau.spark import DataFrame

REPORT: Final = "report binary"
"""The schema, for `mapInArrow`."""


def report_of(found: object) -> pa.RecordBatch:
    """In a task. The object may be of a class in a user's own folder."""
    return pa.record_batch([pa.array([cloudpickle.dumps(found)], pa.binary())], ["report"])


def collect_reports(frame: DataFrame) -> list[Any]:
    """Runs the tasks."""
    return [pickle.loads(row.report) for row in frame.collect()]
