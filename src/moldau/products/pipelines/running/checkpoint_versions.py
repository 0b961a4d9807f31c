"""`reset`: makes a new version of a pipeline's checkpoint, which begins at chosen offsets.

The old version is kept next to it under another name until a person deletes it.

For every target, the new checkpoint is a new query: batches count from 0, and records that are read twice are written
twice.

A file in the checkpoint holds the chosen offsets, which apply to the first batch of the queries that the pipeline had
at the reset. A target that is added later begins where the pipeline file says, because the chosen offsets do not
concern it, and retention may have deleted their records. A topic that is gone by then is left out. A topic that was
created again is read from its first record, because the chosen offsets no longer exist.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import (
    CheckpointError,
    first_batch_start,
    newest_planned_batch,
    write_whole,
)
from moldau.products.pipelines.checkpoints.lease import LeaseError, holder_of, leases_below
from moldau.products.pipelines.core.start import EARLIEST, Start
from moldau.products.pipelines.running.group import GroupError, check_groups, opened_group
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.spark.options import offsets_to_json
from moldau.spark.source.offsets import StreamOffset, TopicIds, offset_from_dict, offset_to_dict, recreated_topics
from moldau.types import TopicPartition

logger = logging.getLogger("moldau.pipelines")

START_FILE = "start.json"


class ResetError(MoldauError):
    """The pipeline cannot begin there; the message says why."""


class ChosenStarts(msgspec.Struct, frozen=True):
    """`sources`: the chosen offsets by source, in the form of the option `startingOffsets`. `others`: the names of
    queries that begin where the pipeline file says."""

    sources: dict[str, str] = {}
    others: frozenset[str] = frozenset()


class _Reset(msgspec.Struct, frozen=True):
    """The content of the file. `queries`: the targets that the pipeline had. `starts`: by source, EARLIEST, or offsets
    with the ids of their topics."""

    queries: tuple[str, ...]
    starts: dict[str, str | dict[str, dict[str, int | str]]]


def look_at_reset(spec: PipelineSpec, to: Start) -> dict[str, StreamOffset]:
    """The offsets at which each topic source would begin. Changes nothing. Raises LeaseError while the pipeline runs,
    GroupError, ResetError."""
    chosen = _starts(spec, to)
    check_groups(spec)
    holder = holder_of(spec.checkpoint)
    if holder is not None:
        raise LeaseError(f"{holder} runs a pipeline on the checkpoint {spec.checkpoint}")
    return chosen


def reset(spec: PipelineSpec, to: Start) -> tuple[Path, dict[TopicPartition, int]]:
    """The path of the old version, and the offsets at which the next run begins. Also commits these to the groups.
    Raises as `look_at_reset`."""
    chosen = look_at_reset(spec, to)
    starts = {name: start.offsets for name, start in chosen.items()}
    # the earliest offsets may be deleted before the first run; others are fixed, to read all records that arrive until
    # then
    nested = {name: EARLIEST if to == EARLIEST else offset_to_dict(start) for name, start in chosen.items()}
    chosen_now = _Reset(tuple(query.step.target.name for query in spec.queries), nested)
    fresh = _fresh(spec.checkpoint)
    with leases_below(spec.checkpoint, [query.checkpoint for query in spec.queries]):
        write_whole(fresh / START_FILE, msgspec.json.encode(chosen_now).decode())
        try:
            kept = _free_name(spec.checkpoint)
            spec.checkpoint.rename(kept)
        except OSError as error:
            forget_unfinished_reset(spec.checkpoint)
            raise ResetError(
                f"{spec.checkpoint} cannot be moved away: {error.strerror or error}. If it is a mount point, let "
                "`checkpoint` name a directory inside of it, and move the files there"
            ) from error
        fresh.rename(spec.checkpoint)
    # after the move: before it, the groups have the metadata of the old version's transactions
    try:
        _show(spec, starts)
    except GroupError as error:
        what = f"the pipeline is reset, and its old checkpoint is kept in {kept}, but its groups do not show that"
        raise ResetError(f"{what}: {error}") from error
    return kept, {one: offset for start in starts.values() for one, offset in start.items()}


def _show(spec: PipelineSpec, starts: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    """Commits the new offsets to the groups. Raises GroupError."""
    for query in spec.queries:
        for access in query.clusters_of_group:
            own = [starts[name] for name, one in query.streams().items() if one.access == access]
            with opened_group(spec, access, query.group) as group:
                group.begin({one: offset for of_source in own for one, offset in of_source.items()})


def finish_reset(checkpoint: Path) -> None:
    """Moves the new version into place if `reset` was killed after it moved the old one away. Otherwise a run would
    begin where the pipeline file says, not at the chosen offsets. Raises CheckpointError."""
    fresh = _fresh(checkpoint)
    if not checkpoint.exists() and (fresh / START_FILE).exists():
        try:
            fresh.rename(checkpoint)
        except OSError as error:
            raise CheckpointError(f"{checkpoint} cannot be made: {error.strerror or error}") from error


def forget_unfinished_reset(checkpoint: Path) -> None:
    """Deletes the remains of a reset that was killed before it moved the old version. The caller must hold the leases
    of the pipeline's queries."""
    shutil.rmtree(_fresh(checkpoint), ignore_errors=True)


def _fresh(checkpoint: Path) -> Path:
    """The path where a new version is built."""
    return checkpoint.with_name(f".{checkpoint.name}.new")


def starting_offsets(spec: PipelineSpec) -> ChosenStarts:
    """The offsets that `reset` chose, for the queries without a planned batch since. Raises CheckpointError,
    GroupError."""
    last = _last_reset(spec)
    if last is None:
        return ChosenStarts()
    waiting = [query for query in spec.queries if newest_planned_batch(query.checkpoint) < 0]
    ruled = [query for query in waiting if query.step.target.name in last.queries]
    sources = {name: source for query in ruled for name, source in query.streams().items() if name in last.starts}
    if not sources:
        return ChosenStarts()
    return ChosenStarts(
        {name: _as_option(spec, source, last.starts[name]) for name, source in sources.items()},
        frozenset(query.name for query in waiting if query not in ruled),
    )


def first_offsets(
    spec: PipelineSpec,
    query: PipelineQuery,
    source: str,
    bounds: Mapping[TopicPartition, tuple[int, int]],
    topic_ids: TopicIds,
) -> dict[TopicPartition, int]:
    """The first offsets of a query without a finished batch, for its source of that name. `bounds`: first and end
    offsets of the partitions. `topic_ids`: of the existing topics. Raises CheckpointError."""
    firsts = {one: first for one, (first, _) in bounds.items()}
    if newest_planned_batch(query.checkpoint) >= 0:
        # the unfinished batch runs again from its start
        known = first_batch_start(query.checkpoint)
        return {one: known.get(one, first) for one, first in firsts.items()}
    chosen = chosen_start(spec, query, source)
    if chosen is not None:
        return firsts if isinstance(chosen, str) else _where_chosen(chosen, firsts, topic_ids)
    return firsts if query.streams()[source].start == EARLIEST else {one: end for one, (_, end) in bounds.items()}


def chosen_start(spec: PipelineSpec, query: PipelineQuery, source: str) -> StreamOffset | str | None:
    """The start that `reset` chose for a source of a query without a planned batch since: EARLIEST, or offsets. None if
    the pipeline file decides. Raises CheckpointError."""
    last = _last_reset(spec)
    if last is None or query.step.target.name not in last.queries or source not in last.starts:
        return None
    chosen = last.starts[source]
    return chosen if isinstance(chosen, str) else offset_from_dict(chosen)


def _where_chosen(
    chosen: StreamOffset, firsts: Mapping[TopicPartition, int], topic_ids: TopicIds
) -> dict[TopicPartition, int]:
    """For every existing partition. A newer partition, or one of a topic that was created again, begins at its first
    record. `firsts`: the first offsets of the partitions."""
    anew = recreated_topics(chosen.topic_ids, topic_ids)
    return {one: first if one.topic in anew else chosen.offsets.get(one, first) for one, first in firsts.items()}


def _last_reset(spec: PipelineSpec) -> _Reset | None:
    """The file of the last `reset`; None without one. Raises CheckpointError."""
    path = spec.checkpoint / START_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Reset)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise CheckpointError(
            f"{path}: not the offsets of a reset ({error}): delete it if the pipeline has run since, else reset again"
        ) from error


def _as_option(spec: PipelineSpec, source: TopicSource, start: str | Mapping[str, Mapping[str, int | str]]) -> str:
    """The option must name exactly the existing partitions."""
    if isinstance(start, str):
        return start
    chosen = offset_from_dict(start)
    with opened_group(spec, source.access, spec.queries[0].group) as cluster:
        topics = cluster.topics_of(source)
        bounds, topic_ids = cluster.bounds(topics), cluster.topic_ids(topics)
    for lost in lost_topics(chosen.topic_ids, topic_ids):
        logger.warning("%s since the reset: the pipeline begins without what was chosen of it", lost)
    return offsets_to_json(_where_chosen(chosen, {one: first for one, (first, _) in bounds.items()}, topic_ids))


def lost_topics(before: TopicIds, now: TopicIds) -> list[str]:
    """The topics that are gone or were created again, in words."""
    gone = [f"topic {topic!r} is gone" for topic in sorted(before) if topic not in now]
    return [*gone, *(f"topic {topic!r} was made anew" for topic in recreated_topics(before, now))]


def _starts(spec: PipelineSpec, to: Start) -> dict[str, StreamOffset]:
    """The start of every partition, for each topic source."""
    starts: dict[str, StreamOffset] = {}
    streams = {name: source for query in spec.queries for name, source in query.streams().items()}
    for name, source in streams.items():
        with opened_group(spec, source.access, spec.queries[0].group) as cluster:
            topics = cluster.topics_of(source)
            topic_ids = cluster.topic_ids(topics)
            bounds = cluster.bounds(topics)
            if not bounds:
                raise ResetError(f"{source.describe()}: there is no such topic on {source.access}")
            later = cluster.since(bounds, to) if isinstance(to, int) else {}
        offsets = {one: _offset(one, first, end, to, later) for one, (first, end) in bounds.items()}
        starts[name] = StreamOffset(offsets, topic_ids)
    if not starts and to != EARLIEST:
        raise ResetError("no source of the pipeline is a topic: use `--to earliest`")
    return starts


def _offset(partition: TopicPartition, first: int, end: int, to: Start, later: Mapping[TopicPartition, int]) -> int:
    if isinstance(to, int):
        return later[partition] if later[partition] >= 0 else end
    if isinstance(to, str):
        return first if to == EARLIEST else end
    offset = to.get(partition.topic, {}).get(str(partition.partition))
    if offset is None:
        raise ResetError(f"no offset is given for {partition}; every partition needs one")
    if not first <= offset <= end:
        raise ResetError(f"{partition} has the offsets {first} to {end}, and {offset} is not among them")
    return offset


def _free_name(checkpoint: Path) -> Path:
    number = 1
    while (kept := checkpoint.with_name(f"{checkpoint.name}.old-{number}")).exists():
        number += 1
    return kept
