"""Reads the files that the batches of a query have read from Spark's checkpoint.

A file source logs them: `sources/<source>/<n>` has a version line, and a line of JSON for each file, with the number
`n` of the log entry as `batchId`; `<n>.compact` also has the lines of all earlier files. The source's line in
`offsets/<batch>` has the last entry that the batch has read: {"logOffset": n}. (Spark, FileStreamSourceLog.)
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan, CheckpointError, source_offsets

LOG_OFFSET = "logOffset"


def files_read(span: BatchSpan) -> list[Path]:
    """The files that the batches of the span have read and that still exist, in order. Raises CheckpointError."""
    ends = _log_offsets(span.checkpoint, span.last)
    starts = _log_offsets(span.checkpoint, span.first - 1) if span.first > 0 else {}
    paths: set[Path] = set()
    for source, end in ends.items():
        for path, entry in _entries(span.checkpoint / "sources" / str(source)):
            if starts.get(source, -1) < entry <= end and path.exists():
                paths.add(path)
    return sorted(paths)


def _log_offsets(checkpoint: Path, batch_id: int) -> dict[int, int]:
    """The last entry that each file source has read, by the place of the source."""
    path = checkpoint / "offsets" / str(batch_id)
    if not path.exists():  # Spark keeps the newest hundred batches
        return {}
    offsets = enumerate(source_offsets(path))
    return {place: int(offset[LOG_OFFSET]) for place, offset in offsets if offset is not None and LOG_OFFSET in offset}


def _entries(log: Path) -> list[tuple[Path, int]]:
    found = []
    try:
        for file in log.iterdir():
            if file.name.removesuffix(".compact").isdigit():
                for line in file.read_text("utf-8").splitlines()[1:]:
                    entry = json.loads(line)
                    found.append((Path(unquote(urlsplit(entry["path"]).path)), int(entry["batchId"])))
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{log}: not the log of a source of files: {error}") from error
    return found
