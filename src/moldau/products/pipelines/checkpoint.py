"""What Spark's checkpoint says is done: the source offsets of the newest finished batch.

`offsets/N` is written before batch N runs, `commits/N` after its output is out. So the offsets of the newest N that
stands in `commits` are exactly what the sink holds, in this run or in one that was killed.
Format (Spark, OffsetSeqLog): a version line `v1`, a line of JSON about the batch, then one line of JSON per source.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from moldau.errors import MoldauError
from moldau.types import TopicPartition

VERSION_LINE = "v1"


class CheckpointError(MoldauError):
    """A file of the checkpoint is not what Spark writes."""


class FinishedBatch(msgspec.Struct, frozen=True):
    """`offsets`: the next offset to read of every partition of the source."""

    batch_id: int
    offsets: dict[TopicPartition, int]


def newest_finished_batch(checkpoint: Path) -> FinishedBatch | None:
    """None while no batch is finished. Raises CheckpointError."""
    try:
        names = [path.name for path in (checkpoint / "commits").iterdir()]
    except FileNotFoundError:
        return None
    finished = [int(name) for name in names if name.isdigit()]
    if not finished:
        return None
    batch_id = max(finished)
    return FinishedBatch(batch_id, _source_offsets(checkpoint / "offsets" / str(batch_id)))


def _source_offsets(path: Path) -> dict[TopicPartition, int]:
    try:
        lines = path.read_text("utf-8").splitlines()
        if lines[0] != VERSION_LINE:
            raise CheckpointError(f"{path}: version {lines[0]!r} is not known; {VERSION_LINE} is")
        sources = [json.loads(line) for line in lines[2:]]
        # a source that the query reads twice may stand twice: done is what both have read
        read: dict[TopicPartition, list[int]] = {}
        for nested in sources:
            for topic, partitions in nested.items():
                if topic.startswith("@"):
                    continue
                for number, offset in partitions.items():
                    read.setdefault(TopicPartition(topic, int(number)), []).append(int(offset))
        return {partition: min(offsets) for partition, offsets in read.items()}
    except (OSError, IndexError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: not the offsets of one source: {error}") from error
