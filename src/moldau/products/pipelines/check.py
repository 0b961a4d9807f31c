"""What several pages must not share: each would take from the other what it needs for itself alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from moldau.products.pipelines.page import PipelinePage


def find_conflicts(pages: Mapping[Path, PipelinePage]) -> list[str]:
    """A sentence for each page that has the name, the checkpoint or the group of one before it."""
    owners: dict[tuple[str, str], Path] = {}
    found: list[str] = []
    for file, page in pages.items():
        own = {"name": page.name, "checkpoint": str(page.checkpoint.absolute()), "group": page.group}
        for key, value in own.items():
            owner = owners.setdefault((key, value), file)
            if owner != file:
                found.append(f"{file}: `{key}` {value} is that of {owner}: each page needs its own")
                break  # a page with the same name has the same checkpoint and group by default
    return found
