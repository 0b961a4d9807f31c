"""Another beginning for a page's queries, at offsets that are chosen: a new generation of the checkpoint takes the
place of the old one, which is kept beside it under another name until somebody deletes it.

The new checkpoint is another query for every target: batches are counted from 0 again, and what is read twice is
written twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from moldau.errors import MoldauError
from moldau.products.pipelines.checkpoints.checkpoint import CheckpointError, write_whole
from moldau.products.pipelines.checkpoints.lease import Lease
from moldau.products.pipelines.core.start import EARLIEST, Start
from moldau.products.pipelines.page.page import PipelinePage
from moldau.products.pipelines.running.group import GroupOffsets
from moldau.spark.options import nested_offsets
from moldau.types import TopicPartition

START_FILE = "start.json"


class ResetError(MoldauError):
    """The page cannot begin there; the message says why."""


def reset(page: PipelinePage, to: Start) -> tuple[Path, dict[TopicPartition, int]]:
    """Where the old generation is kept now, and where the next run begins. Shows the new offsets in the groups too.
    Raises LeaseError while the page runs, GroupError, ResetError."""
    starts = _starts(page, to)
    nested = {name: nested_offsets(start) for name, start in starts.items()}
    fresh = page.checkpoint.with_name(f".{page.checkpoint.name}.new")
    with Lease(page.checkpoint):
        write_whole(fresh / START_FILE, json.dumps(nested))
        kept = _free_name(page.checkpoint)
        page.checkpoint.rename(kept)
        fresh.rename(page.checkpoint)
    for query in page.queries:
        for name, source in query.streams().items():
            with closing(GroupOffsets(source.bootstrap_servers, query.group)) as group:
                group.commit(starts[name])
    return kept, {one: offset for start in starts.values() for one, offset in start.items()}


def starting_offsets(page: PipelinePage) -> dict[str, str]:
    """By source what `reset` chose, as the source's option takes it. Raises CheckpointError."""
    path = page.checkpoint / START_FILE
    try:
        return {str(name): json.dumps(offsets) for name, offsets in json.loads(path.read_text("utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: not the offsets of a reset: {error}") from error


def _starts(page: PipelinePage, to: Start) -> dict[str, dict[TopicPartition, int]]:
    """Of each source that is a topic, every partition's offset."""
    starts: dict[str, dict[TopicPartition, int]] = {}
    streams = {name: source for query in page.queries for name, source in query.streams().items()}
    for name, source in streams.items():
        with closing(
            GroupOffsets(
                source.bootstrap_servers,
                page.queries[0].group,
                first_contact_timeout_ms=page.first_contact_timeout_ms,
            )
        ) as cluster:
            topics = cluster.topics_of(source)
            bounds = cluster.bounds(topics)
            if not bounds:
                raise ResetError(f"{source.describe()}: there is no such topic on {source.bootstrap_servers}")
            later = cluster.since(bounds, to) if isinstance(to, int) else {}
        starts[name] = {one: _offset(one, first, end, to, later) for one, (first, end) in bounds.items()}
    if not starts and to != EARLIEST:
        raise ResetError("no source of the page is a topic: only `--to earliest` has a meaning")
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
