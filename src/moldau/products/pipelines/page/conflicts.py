"""What several pages must not share: each would take from the other what it needs for itself alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from moldau.products.pipelines.page.page import PipelinePage


def find_conflicts(pages: Mapping[Path, PipelinePage]) -> list[str]:
    """A sentence for each page that has the name, a checkpoint, a group or a transactional id of one before it."""
    owners: dict[tuple[str, str], Path] = {}
    found: list[str] = []
    for file, page in pages.items():
        for key, value in _own(page):
            owner = owners.setdefault((key, value), file)
            if owner != file:
                found.append(f"{file}: `{key}` {value} is that of {owner}: each page needs its own")
                break  # a page with the same name has the same checkpoint and group by default
    return found


def _own(page: PipelinePage) -> Iterator[tuple[str, str]]:
    yield "name", page.name
    yield "checkpoint", str(page.checkpoint.absolute())
    for query in page.queries:
        yield "checkpoint", str(query.checkpoint.absolute())
        yield "group", query.group
        if query.target.commits_offsets:
            yield "transactional id", query.transactional_id
