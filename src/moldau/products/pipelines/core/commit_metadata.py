"""What a pipeline leaves in a cluster for those who look at it: a note beside the offsets of its group, and headers.

The note is the metadata of a committed offset: JSON with the number of the batch, and a text of the pipeline. Anybody
who may commit to a group may write one, so a reader takes nothing but short names and numbers from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

GROUP_PREFIX = "moldau."
"""Before the name of a pipeline: the group that it commits to, unless its page says otherwise."""
DEAD_LETTERS_SUFFIX = ".dead-letters"
"""Behind the name of a pipeline: the topic of its records that do not parse, unless its page says otherwise."""
REASON_HEADER = "moldau.reason"
"""Of a dead letter: why the record is no row."""
PIPELINE_HEADER = "moldau.pipeline"

MAX_METADATA = 8_192
"""Characters that are read of a note; Kafka's brokers take 4,096 bytes by default (offset.metadata.max.bytes)."""
MAX_DEAD_LETTERS = 16
MAX_NAMED = 1_000
"""Characters of all dead-letter topics that a note names: a broker refuses the offsets with a note that is too long."""

_NAME = r"^[a-zA-Z0-9._-]{1,301}\Z"
_Name = Annotated[str, msgspec.Meta(pattern=_NAME)]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
_Batch = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class PipelineNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """`pipeline`: the name of the query; `spec`: that of its file (older releases leave it out). `dead_letters`:
    the topics for its records that do not parse. `board_port`: on the loopback of `host`; None where the run serves no
    board there. `board_tls`: whether a browser opens it with `https:`."""

    pipeline: _Name
    host: _Name | None = None
    board_port: _Port | None = None
    dead_letters: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_DEAD_LETTERS)] = ()
    spec: _Name | None = msgspec.field(default=None, name="page")
    board_tls: bool = False

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class BoardPlace(msgspec.Struct, frozen=True):
    """Where the loopback of a run's machine has its board."""

    port: int
    has_tls: bool = False


class CommitNote(msgspec.Struct, frozen=True):
    """What stands beside a group's offsets. `batch`: the newest that is committed."""

    batch: int | None = None
    pipeline: PipelineNote | None = None


class _Metadata(msgspec.Struct):
    batch: _Batch | None = None
    note: str | None = None


def note_of(spec: str, pipeline: str, host: str, board: BoardPlace | None, dead_letters: Iterable[str]) -> PipelineNote:
    """As readers take it: a host whose name they would not take is left out, and so are the dead-letter topics behind
    MAX_DEAD_LETTERS or MAX_NAMED."""
    topics: list[str] = []
    for topic in dict.fromkeys(dead_letters):
        if len(topics) == MAX_DEAD_LETTERS or sum(map(len, topics)) + len(topic) > MAX_NAMED:
            break
        topics.append(topic)
    named = host if re.match(_NAME, host) else None
    if board is None:
        return PipelineNote(pipeline, named, None, tuple(topics), spec)
    return PipelineNote(pipeline, named, board.port, tuple(topics), spec, board.has_tls)


def metadata_of(batch_id: int, note: str) -> str:
    """The metadata of an offset that is committed for a batch. It names no query, so a sink that looks there for what
    its own transactions have committed passes it over."""
    return json.dumps({"batch": batch_id, "note": note})


def read_notes(metadata: Iterable[str]) -> CommitNote:
    """The note of the newest batch. What is none, or none of ours, counts as nothing: nothing here raises."""
    newest = CommitNote()
    for text in metadata:
        note = _read_note(text)
        if note.batch is not None and (newest.batch is None or note.batch > newest.batch):
            newest = note
    return newest


def is_noted(metadata: str) -> bool:
    """Whether the metadata of an offset says which batch it is of."""
    return _read_note(metadata).batch is not None


def others_in(metadata: Iterable[str], spec: str, pipeline: str) -> list[str]:
    """All pipelines but this one that have left a note, in words, sorted. The short page `shop.eu` and the target `eu`
    of the page `shop` have one name: their pages tell them apart. Nothing here raises."""
    found: set[str] = set()
    for note in (_read_note(text).pipeline for text in metadata):
        if note is not None and note.pipeline != pipeline:
            found.add(repr(note.pipeline))
        elif note is not None and note.spec not in (None, spec):
            found.add(f"{note.pipeline!r} of the page {note.spec!r}")
    return sorted(found)


def _read_note(text: str) -> CommitNote:
    if not text or len(text) > MAX_METADATA:
        return CommitNote()
    try:
        # offsets that were copied with confluent-kafka have the 0 behind a C string at the end of their metadata
        found = msgspec.json.decode(text.rstrip("\0"), type=_Metadata)
    except (ValueError, RecursionError):
        return CommitNote()
    if found.note is None:
        return CommitNote(found.batch)
    try:
        return CommitNote(found.batch, msgspec.json.decode(found.note, type=PipelineNote))
    except (ValueError, RecursionError):
        return CommitNote(found.batch)
