"""Reads a query's Spark checkpoint: the source offsets of the newest finished batch.

Spark writes `offsets/N` before batch N runs, and `commits/N` after its output. So the offsets of the newest N in
`commits` are exactly those of the sink's rows, in this run or in one that was killed. Format (Spark, OffsetSeqLog): a
version line `v1`, a line of JSON about the batch, then one line of JSON per source.

Our source and Spark's own Kafka connector write offsets as the same JSON, except for entries that our source adds to
the topics (`moldau.spark.source.offsets`). Spark's connector rejects these, and `move_to_spark_kafka` removes them.

Besides Spark's files the directory has two of ours: `pipeline.json`, the query that this checkpoint belongs to, and
`dead-letters.json`, the batch up to which records that do not parse were collected. The checkpoint of the pipeline also
has the logs of `found_files`.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from moldau.errors import MoldauError
from moldau.spark.sink.checkpoint_offsets import VERSION_LINE, offsets_if_topics
from moldau.spark.source.offsets import (
    FIRST_START,
    StreamOffset,
    TopicIds,
    offset_from_dict,
    read_by_all,
    topic_offsets,
)
from moldau.types import TopicPartition

NO_OFFSET = "-"
"""The line of a source that has no offset yet."""
QUERY_FILE = "pipeline.json"

_TEMPORARY = re.compile(r"\.{1,2}\d+\.[0-9a-f-]{36}\.tmp(\.crc)?")
"""The names under which Spark writes the offsets of a batch, before it renames the file."""


class CheckpointError(MoldauError):
    """A file of the checkpoint is not in Spark's form, or cannot be written."""


class FinishedBatch(msgspec.Struct, frozen=True):
    """`offsets`: the next offset to read, for every partition of the topic sources."""

    batch_id: int
    offsets: dict[TopicPartition, int]


class BatchSpan(msgspec.Struct, frozen=True):
    """The finished batches `first` to `last` of a query. `starts` and `ends`: the offsets before and after them, as
    `FinishedBatch.offsets`; a partition without a start begins at 0."""

    checkpoint: Path
    first: int
    last: int
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


def newest_finished_batch(checkpoint: Path) -> FinishedBatch | None:
    """None if no batch is finished. Raises CheckpointError."""
    try:
        names = [path.name for path in (checkpoint / "commits").iterdir()]
    except FileNotFoundError:
        return None
    finished = [int(name) for name in names if name.isdigit()]
    if not finished:
        return None
    batch_id = max(finished)
    return FinishedBatch(batch_id, _source_offsets(checkpoint / "offsets" / str(batch_id)))


def owes_batch(checkpoint: Path, batch_id: int) -> bool:
    """Whether this finished batch raised the watermark: then a query with state has a batch without new records after
    it, which writes what the watermark has closed. Raises CheckpointError."""
    path = checkpoint / "commits" / str(batch_id)
    try:
        after = json.loads(path.read_text("utf-8").splitlines()[1])["nextBatchWatermarkMs"]
        before = json.loads(_lines(checkpoint / "offsets" / str(batch_id))[1])["batchWatermarkMs"]
        return bool(after > before)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: not the commit of a batch: {error}") from error


def newest_planned_batch(checkpoint: Path) -> int:
    """The newest batch whose offsets Spark has written, which it does before it runs the batch. -1 before the first."""
    try:
        names = [path.name for path in (checkpoint / "offsets").iterdir()]
    except FileNotFoundError:
        return -1
    return max((int(name) for name in names if name.isdigit()), default=-1)


def forget_unfinished_write(checkpoint: Path) -> None:
    """Deletes the temporary files of a JVM that was killed while it wrote the offsets of the first batch: Spark begins
    no first batch beside other files (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY). The caller must hold the lease, and
    no other process may write."""
    if newest_planned_batch(checkpoint) < 0:
        for file in (checkpoint / "offsets").glob(".*"):
            if _TEMPORARY.fullmatch(file.name):
                file.unlink(missing_ok=True)


def unfinished_batch(checkpoint: Path) -> BatchSpan | None:
    """The batch that Spark has begun but not finished; None without one. Raises CheckpointError."""
    planned, done = newest_planned_batch(checkpoint), newest_finished_batch(checkpoint)
    if planned <= (-1 if done is None else done.batch_id):
        return None
    starts = first_batch_start(checkpoint) if done is None else done.offsets
    return BatchSpan(checkpoint, planned, planned, starts, _source_offsets(checkpoint / "offsets" / str(planned)))


def ends_by_source(checkpoint: Path, batch_id: int) -> list[StreamOffset]:
    """The end of a batch in each of its topic sources. Empty if Spark no longer has the batch. Raises
    CheckpointError."""
    path = checkpoint / "offsets" / str(batch_id)
    if not path.exists():
        return []
    return [offset_from_dict(nested) for nested in _sources(path) if offsets_if_topics(nested)]


def topic_ids(checkpoint: Path, batch_id: int) -> TopicIds:
    """The known topic ids at the end of a batch. Raises CheckpointError."""
    ends = ends_by_source(checkpoint, batch_id)
    return {topic: topic_id for end in ends for topic, topic_id in end.topic_ids.items()}


def first_batch_start(checkpoint: Path) -> dict[TopicPartition, int]:
    """The start of the first batch, which our source stores in that batch's end. Empty if Spark no longer has it."""
    path = checkpoint / "offsets" / "0"
    if not path.exists():
        return {}
    starts: dict[TopicPartition, int] = {}
    for nested in _sources(path):
        starts.update(topic_offsets(nested.get(FIRST_START, {})))
    return starts


def check_checkpoint(checkpoint: Path) -> None:
    """Raises CheckpointError for a directory without the offsets of a query."""
    if not (checkpoint / "offsets").is_dir():
        raise CheckpointError(f"{checkpoint}: no checkpoint of a Spark query: it has no directory `offsets`")


def move_to_spark_kafka(checkpoint: Path) -> int:
    """Converts a checkpoint of our source for Spark's own Kafka connector; returns the number of changed files. No
    query may run on it: hold its lease. Raises CheckpointError.

    Can be repeated if it is interrupted, because each file is replaced atomically.
    """
    check_checkpoint(checkpoint)
    found = (path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    paths = sorted(found, key=lambda path: int(path.name))
    changed = 0
    for path in paths:
        first, conf, *lines = _lines(path)
        plain = []
        for place, line in enumerate(lines):
            nested = {} if line == NO_OFFSET else _source(path, line)
            if FIRST_START in nested and path == paths[0]:
                changed += _note_start(checkpoint / "sources" / str(place) / "0", nested[FIRST_START])
            ours = any(name.startswith("@") for name in nested)
            plain.append(_plain_offsets(nested) if ours else line)
        if plain != lines:
            _replace("\n".join([first, conf, *plain]), path)
            changed += 1
    return changed


def _note_start(path: Path, start: Mapping[str, Any]) -> int:
    """Writes the file in which Spark's connector keeps the start of the first batch, to be able to repeat that batch. A
    zero byte comes before the version, as in that connector (SPARK-19517)."""
    if path.exists():
        return 0
    _replace(f"\0{VERSION_LINE}\n{_plain_offsets(start)}", path)
    return 1


def _plain_offsets(nested: Mapping[str, Any]) -> str:
    kept = {topic: partitions for topic, partitions in nested.items() if not topic.startswith("@")}
    return json.dumps(kept, separators=(",", ":"))


def _replace(text: str, path: Path) -> None:
    """Replaces the content of a file that Spark wrote, and deletes its checksum."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    write_whole(path, text)


def claim_checkpoint(
    checkpoint: Path, query: Mapping[str, str | None], *, pipeline: str, places: Collection[str] = ()
) -> str:
    """Stores the query and the places that it writes to; returns the checkpoint's id. Once a batch is planned, raises
    CheckpointError for a different query.

    Spark would continue with the offsets and aggregates of the old query, and its results would fit neither query.
    """
    changed = changed_facts(checkpoint, query)
    if changed:
        raise CheckpointError(
            f"`{'`, `'.join(changed)}` of pipeline {pipeline!r} changed since the checkpoint {checkpoint} was begun: "
            "it holds the offsets and aggregates of the old query. Undo the change, begin again where you choose with "
            "`moldau pipeline reset`, or name another directory with `checkpoint`"
        )
    before = _noted(checkpoint)
    checkpoint_id = secrets.token_hex(4) if before is None else before.id
    wanted = {name: _without_layout(text) for name, text in query.items()}
    noted = {"id": checkpoint_id, "query": wanted, "places": sorted(places)}
    write_whole(checkpoint / QUERY_FILE, json.dumps(noted, indent=2) + "\n")
    return checkpoint_id


Change = tuple[str | None, str | None]
"""The old and the new fact of a query; None: absent."""


def changed_facts(checkpoint: Path, query: Mapping[str, str | None]) -> dict[str, Change]:
    """The facts of the query that differ from those at the checkpoint's beginning; none before a batch is planned.
    Raises CheckpointError."""
    noted = _noted(checkpoint)
    if noted is None or newest_planned_batch(checkpoint) < 0:
        return {}
    before, now = noted.query, {name: _without_layout(text) for name, text in query.items()}
    pairs = {name: (before.get(name), now.get(name)) for name in {**before, **now}}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def kept_state(checkpoint: Path) -> tuple[int, int]:
    """The number of the query's steps that keep state (groups, joins, earlier values), and the bytes of their files."""
    directory = checkpoint / "state"
    steps = [path for path in directory.glob("*") if path.name.isdigit()]
    # Spark may remove old files and directories meanwhile; `walk` skips those
    files = [Path(place) / name for place, _, names in os.walk(directory) for name in names]
    sizes = 0
    for path in files:
        with suppress(FileNotFoundError):
            sizes += path.stat().st_size
    return len(steps), sizes


def former_writer(
    root: Path, current: Collection[Path], places: Collection[str], reads: Collection[str]
) -> Path | None:
    """Finds the checkpoint of a renamed or removed target, among the checkpoints of a pipeline: it wrote to one of
    `places`, and is not in `current`. `reads`: the facts about the locations of sources; a checkpoint that read none of
    these wrote other rows. Raises CheckpointError."""
    own = {_without_layout(fact) for fact in reads}
    directories = [root, *sorted(path.parent for path in root.glob(f"*/{QUERY_FILE}"))]
    for directory in directories:
        if directory not in current and newest_planned_batch(directory) >= 0:
            noted = _noted(directory)
            if noted is None or set(places).isdisjoint(noted.places):
                continue
            if not own.isdisjoint(fact for name, fact in noted.query.items() if name.startswith("source")):
                return directory
    return None


class _Noted(msgspec.Struct, frozen=True):
    """The checkpoint's id, the query that it belongs to, and the places that the query writes to."""

    id: str
    query: dict[str, str | None]
    places: tuple[str, ...]


def _noted(checkpoint: Path) -> _Noted | None:
    path = checkpoint / QUERY_FILE
    try:
        noted = json.loads(path.read_text("utf-8"))
        return _Noted(str(noted["id"]), dict(noted["query"]), tuple(noted.get("places", ())))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: not the query of a pipeline: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """Writes the file atomically, even if the process is killed. Raises CheckpointError, for example if the disk is
    full."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, "utf-8")
        temporary.replace(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror or error}") from error


def _without_layout(text: str | None) -> str | None:
    """The text without line breaks and indentation outside of quotes: these do not change a query."""
    if text is None:
        return None
    return re.sub(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\s+""", lambda found: found[1] or " ", text).strip()


def _lines(path: Path) -> list[str]:
    """The version, a line about the batch, and a line for each source. Raises CheckpointError."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not the offsets of one source: {error}") from error
    if not lines or lines[0] != VERSION_LINE:
        raise CheckpointError(f"{path}: version {lines[0] if lines else ''!r} is not known; {VERSION_LINE} is")
    if len(lines) < 3:
        raise CheckpointError(f"{path}: not the offsets of one source: it ends early")
    return lines


def _source(path: Path, line: str) -> dict[str, Any]:
    try:
        nested = json.loads(line)
    except ValueError as error:
        raise CheckpointError(f"{path}: not the offsets of one source: {error}") from error
    if not isinstance(nested, dict):
        raise CheckpointError(f"{path}: not the offsets of one source: a source without a mapping")
    return nested


def source_offsets(path: Path) -> list[dict[str, Any] | None]:
    """The offset of each source of a batch, in their order; None for a source without one yet. Raises
    CheckpointError."""
    return [None if line == NO_OFFSET else _source(path, line) for line in _lines(path)[2:]]


def _sources(path: Path) -> list[dict[str, Any]]:
    return [offset for offset in source_offsets(path) if offset is not None]


def _source_offsets(path: Path) -> dict[TopicPartition, int]:
    return read_by_all(map(offsets_if_topics, _sources(path)))
