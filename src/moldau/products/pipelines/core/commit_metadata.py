"""The metadata that a pipeline commits with its offsets, and the headers of its dead letters.

The metadata of a committed offset is JSON with the batch number and a text of the pipeline. Every client that may
commit to a group can write it, so a reader accepts only short names and numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

GROUP_PREFIX = "moldau."
"""Prefix of a pipeline's default group; its name follows."""
DEAD_LETTERS_SUFFIX = ".dead-letters"
"""Suffix of a pipeline's default dead-letter topic, after its name."""
REASON_HEADER = "moldau.reason"
"""The header of a dead letter that says why the record is not a row."""
PIPELINE_HEADER = "moldau.pipeline"

MAX_METADATA = 8_192
"""The most characters that are read; Kafka's brokers accept 4,096 bytes by default (offset.metadata.max.bytes)."""
MAX_DEAD_LETTERS = 16
MAX_NAMED = 1_000
"""The most characters of all dead-letter topics together: a broker rejects offsets with metadata that is too long."""

_NAME = r"^[a-zA-Z0-9._-]{1,301}\Z"
_Name = Annotated[str, msgspec.Meta(pattern=_NAME)]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
_Batch = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class PipelineMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """`pipeline`: the name of the query. `spec`: the name of its pipeline file (older releases omit it).
    `dead_letters`: the topics for records that do not parse. `board_port`: on the loopback of `host`; None if the run
    serves no board there. `board_tls`: whether a browser opens it with `https:`."""

    pipeline: _Name
    host: _Name | None = None
    board_port: _Port | None = None
    dead_letters: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_DEAD_LETTERS)] = ()
    spec: _Name | None = msgspec.field(default=None, name="page")
    board_tls: bool = False

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class BoardPlace(msgspec.Struct, frozen=True):
    """The port of the board, on the loopback of the run's machine."""

    port: int
    has_tls: bool = False


class CommitMetadata(msgspec.Struct, frozen=True):
    """`batch`: the newest committed batch."""

    batch: int | None = None
    pipeline: PipelineMetadata | None = None


class _Metadata(msgspec.Struct):
    batch: _Batch | None = None
    note: str | None = None


def pipeline_metadata(
    spec: str, pipeline: str, host: str, board: BoardPlace | None, dead_letters: Iterable[str]
) -> PipelineMetadata:
    """Omits whatever readers would reject: a host with an invalid name, and the dead-letter topics beyond
    MAX_DEAD_LETTERS or MAX_NAMED."""
    topics: list[str] = []
    for topic in dict.fromkeys(dead_letters):
        if len(topics) == MAX_DEAD_LETTERS or sum(map(len, topics)) + len(topic) > MAX_NAMED:
            break
        topics.append(topic)
    named = host if re.match(_NAME, host) else None
    if board is None:
        return PipelineMetadata(pipeline, named, None, tuple(topics), spec)
    return PipelineMetadata(pipeline, named, board.port, tuple(topics), spec, board.has_tls)


def metadata_of(batch_id: int, metadata: str) -> str:
    """The metadata of an offset that is committed for a batch. It names no query, so a sink that looks for the commits
    of its own transactions ignores it."""
    return json.dumps({"batch": batch_id, "note": metadata})


def read_commit_metadata(metadata: Iterable[str]) -> CommitMetadata:
    """The metadata of the newest batch. Ignores metadata of other writers. Raises nothing."""
    newest = CommitMetadata()
    for text in metadata:
        found = _parsed(text)
        if found.batch is not None and (newest.batch is None or found.batch > newest.batch):
            newest = found
    return newest


def names_batch(metadata: str) -> bool:
    """Whether the metadata of an offset names its batch."""
    return _parsed(metadata).batch is not None


def other_pipelines(metadata: Iterable[str], spec: str, pipeline: str) -> list[str]:
    """The other pipelines with metadata there, in words, sorted. Raises nothing. Compares the names of pipeline files
    too, because the pipeline `shop.eu` in the short form and the target `eu` of the pipeline `shop` have the same query
    name."""
    found: set[str] = set()
    for one in (_parsed(text).pipeline for text in metadata):
        if one is not None and one.pipeline != pipeline:
            found.add(repr(one.pipeline))
        elif one is not None and one.spec not in (None, spec):
            found.add(f"{one.pipeline!r} of the pipeline {one.spec!r}")
    return sorted(found)


def _parsed(text: str) -> CommitMetadata:
    if not text or len(text) > MAX_METADATA:
        return CommitMetadata()
    try:
        # offsets copied with confluent-kafka end in the zero byte of a C string
        found = msgspec.json.decode(text.rstrip("\0"), type=_Metadata)
    except (ValueError, RecursionError):
        return CommitMetadata()
    if found.note is None:
        return CommitMetadata(found.batch)
    try:
        return CommitMetadata(found.batch, msgspec.json.decode(found.note, type=PipelineMetadata))
    except (ValueError, RecursionError):
        return CommitMetadata(found.batch)
