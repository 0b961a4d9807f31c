"""Finds names, checkpoints, groups and places that several pipelines share by mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from moldau.products.pipelines.core.plan import TargetStep
from moldau.products.pipelines.spec.spec import PipelineSpec

QUERY = "query"


def find_conflicts(specs: Mapping[Path, PipelineSpec]) -> list[str]:
    """A sentence for each pipeline that shares its name, a query's name, a checkpoint, a group, a transactional id or a
    target's place with an earlier one."""
    owners: dict[tuple[str, str], Path] = {}
    found: list[str] = []
    for file, spec in specs.items():
        for key, value in _own(spec):
            owner = owners.setdefault((key, value), file)
            if owner != file:
                what = f"`{key}` {value} is that of {owner}: each pipeline needs its own"
                if key == QUERY:
                    what = f"its query {value} has the name of one of {owner}: write another `name`"
                found.append(f"{file}: {what}")
                break  # pipelines of one name have the same checkpoint and group by default
    return [*found, *_double_places(specs)]


def _double_places(specs: Mapping[Path, PipelineSpec]) -> Iterator[str]:
    """A topic may have several writers. A directory or table may not, because one pipeline counts its batches."""
    first: dict[str, tuple[Path, TargetStep]] = {}
    for file, spec in specs.items():
        for query in spec.queries:
            step = query.step.target
            for place in query.target.places():
                other, theirs = first.setdefault(place, (file, step))
                if other != file:
                    yield (
                        f"{file}:{step.line}: `{step.place}` writes to {place}, and so does `{theirs.place}` of "
                        f"{other}:{theirs.line}: only one pipeline may, so name another place with "
                        f"`{query.target.NAMED_BY}`"
                    )
                    break  # an Iceberg table has two places


def _own(spec: PipelineSpec) -> Iterator[tuple[str, str]]:
    yield "name", spec.name
    for query in spec.queries:
        yield QUERY, query.name
    yield "checkpoint", str(spec.checkpoint.absolute())
    for query in spec.queries:
        yield "checkpoint", str(query.checkpoint.absolute())
        yield "group", query.group
        if query.target.commits_offsets:
            yield "transactional id", query.transactional_id
