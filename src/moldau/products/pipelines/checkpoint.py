"""What Spark's checkpoint says is done: the source offsets of the newest finished batch.

`offsets/N` is written before batch N runs, `commits/N` after its output is out. So the offsets of the newest N that
stands in `commits` are exactly what the sink holds, in this run or in one that was killed.
Format (Spark, OffsetSeqLog): a version line `v1`, a line of JSON about the batch, then one line of JSON per source.

Beside Spark's files the directory holds two of ours: `pipeline.json`, the query that this checkpoint belongs to, and
`dead-letters.json`, up to which batch the source was searched for records that do not parse.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from moldau.errors import MoldauError
from moldau.spark.offsets import FIRST_START
from moldau.types import TopicPartition

VERSION_LINE = "v1"
QUERY_FILE = "pipeline.json"


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


def first_batch_start(checkpoint: Path) -> dict[TopicPartition, int]:
    """Where the first batch started, as our source noted it in that batch's end. Empty where Spark no longer has it."""
    path = checkpoint / "offsets" / "0"
    if not path.exists():
        return {}
    starts: dict[TopicPartition, int] = {}
    for nested in _sources(path):
        for topic, partitions in nested.get(FIRST_START, {}).items():
            if not topic.startswith("@"):
                starts.update({TopicPartition(topic, int(number)): offset for number, offset in partitions.items()})
    return starts


def claim_checkpoint(checkpoint: Path, query: Mapping[str, str | None], *, pipeline: str) -> str:
    """The checkpoint's id. Notes the query; once a batch is planned, raises CheckpointError for another query.

    Spark would go on with the offsets and aggregates of the old query, and give results of neither.
    """
    path = checkpoint / QUERY_FILE
    wanted = {name: None if text is None else _without_layout(text) for name, text in query.items()}
    checkpoint_id, before = secrets.token_hex(4), wanted
    try:
        noted = json.loads(path.read_text("utf-8"))
        checkpoint_id, before = str(noted["id"]), dict(noted["query"])
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: not the query of a pipeline: {error}") from error
    changed = [name for name in wanted if before.get(name) != wanted[name]]
    if changed and _has_batches(checkpoint):
        raise CheckpointError(
            f"`{'`, `'.join(changed)}` of pipeline {pipeline!r} changed since the checkpoint {checkpoint} was begun: "
            "it holds the offsets and aggregates of the old query. Undo the change, or name another directory with "
            "`checkpoint`; the new query then starts where `source.start` says"
        )
    write_whole(path, json.dumps({"id": checkpoint_id, "query": wanted}, indent=2) + "\n")
    return checkpoint_id


def _has_batches(checkpoint: Path) -> bool:
    try:
        return any(path.name.isdigit() for path in (checkpoint / "offsets").iterdir())
    except FileNotFoundError:
        return False


def write_whole(path: Path, text: str) -> None:
    """Whole or not at all, also for a process that is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def _without_layout(text: str) -> str:
    """Line breaks and indentation outside of quotes do not make another query."""
    return re.sub(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\s+""", lambda found: found[1] or " ", text).strip()


def _sources(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text("utf-8").splitlines()
        if lines[0] != VERSION_LINE:
            raise CheckpointError(f"{path}: version {lines[0]!r} is not known; {VERSION_LINE} is")
        sources = [json.loads(line) for line in lines[2:]]
        if not all(isinstance(nested, dict) for nested in sources):
            raise ValueError("a source without a mapping")
        return sources
    except (OSError, IndexError, ValueError) as error:
        raise CheckpointError(f"{path}: not the offsets of one source: {error}") from error


def _source_offsets(path: Path) -> dict[TopicPartition, int]:
    # a source that the query reads twice may stand twice: done is what both have read
    read: dict[TopicPartition, list[int]] = {}
    for nested in _sources(path):
        for topic, partitions in nested.items():
            if not topic.startswith("@"):
                for number, offset in partitions.items():
                    read.setdefault(TopicPartition(topic, int(number)), []).append(int(offset))
    return {partition: min(offsets) for partition, offsets in read.items()}
