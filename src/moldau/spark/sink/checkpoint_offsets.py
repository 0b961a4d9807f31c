"""Reads a query's id, and the source offsets at the end of a batch, from its checkpoint.

Spark writes `metadata` when a query is created, and `offsets/N` before batch N runs. Format of the latter
(OffsetSeqLog): a version line, a line of JSON about the batch, then one line for each source. Version 2, for queries
with named sources, puts the name and a colon before it. Sources that are not topics do not write offsets by partition,
and are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from moldau.errors import MoldauError
from moldau.spark.source.offsets import StreamOffset, offset_from_dict, topic_offsets
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from pyarrow import fs

VERSION_LINE = "v1"
NAMED_VERSION_LINE = "v2"

_AMAZON = ("s3", "s3a", "s3n")
"""Hadoop's schemes for the same stores."""


class CheckpointUnreadableError(MoldauError):
    """A file of the checkpoint is missing, or not in Spark's form; the message names it."""


def query_id(checkpoint: str) -> str:
    """The id of the query that this checkpoint belongs to. Raises CheckpointUnreadableError."""
    text = _read(checkpoint, "metadata")
    try:
        return str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointUnreadableError(f"{checkpoint}/metadata names no query: {error}") from error


def batch_ends(checkpoint: str, batch_id: int) -> list[StreamOffset]:
    """The offsets after the last record of a batch, for each topic source. The offsets of a topic that the query reads
    twice, or of a topic name on two clusters, occur twice. Raises CheckpointUnreadableError."""
    return [offset_from_dict(nested) for nested in source_ends(checkpoint, batch_id) if offsets_if_topics(nested)]


def source_ends(checkpoint: str, batch_id: int) -> list[Mapping[str, Any]]:
    """The offset after the last row of a batch, of each source in the form of its own. Raises
    CheckpointUnreadableError."""
    name = f"offsets/{batch_id}"
    version, _, *lines = [*_read(checkpoint, name).splitlines(), "", ""]
    if version not in (VERSION_LINE, NAMED_VERSION_LINE):
        raise CheckpointUnreadableError(
            f"{checkpoint}/{name}: the version is not {VERSION_LINE} or {NAMED_VERSION_LINE}"
        )
    return [_noted(line if version == VERSION_LINE else line.partition(":")[2]) for line in lines]


def _noted(line: str) -> Mapping[str, Any]:
    try:
        nested = json.loads(line)
    except ValueError:
        return {}
    return nested if isinstance(nested, Mapping) else {}


def offsets_if_topics(nested: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The offset of a topic source; empty for any other source."""
    for topic, partitions in nested.items():
        if topic.startswith("@"):
            continue  # entries of our source: see moldau.spark.source.offsets
        if not isinstance(partitions, Mapping):
            return {}
        if not all(number.isdecimal() and type(offset) is int for number, offset in partitions.items()):
            return {}
    return topic_offsets(nested)


def _read(checkpoint: str, name: str) -> str:
    try:
        found = re.match("file:(//[^/]*)?", checkpoint)
        if found is not None or not urlsplit(checkpoint).scheme:
            # Spark does not decode such an address: spaces and percent signs belong to the path
            return (Path(checkpoint[found.end() if found is not None else 0 :]) / name).read_text("utf-8")
        files, path = _store(checkpoint)
        with files.open_input_stream(f"{path.rstrip('/')}/{name}") as stream:
            return str(stream.read().decode("utf-8"))
    except (OSError, ValueError) as error:
        said = str(error).partition("\n")[0]  # Arrow names each file in which it looked for a JVM for HDFS
        raise CheckpointUnreadableError(f"{checkpoint}/{name} cannot be read: {said}") from error


def _store(checkpoint: str) -> tuple[fs.FileSystem, str]:
    """Arrow's file system, and the path in it."""
    from pyarrow import fs

    from moldau.spark.frames.folders import opened

    scheme, _, rest = checkpoint.partition(":")
    if scheme in _AMAZON:
        return opened(f"s3:{rest}")
    files, path = fs.FileSystem.from_uri(checkpoint)
    return files, path
