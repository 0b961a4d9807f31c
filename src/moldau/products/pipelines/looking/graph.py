"""Draws a pipeline as text: each source, the flows that read it, and the targets."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.products.pipelines.spec.spec import PipelineSpec


def graph_of(spec: PipelineSpec) -> Iterator[str]:
    """A tree in lines, with a branch for each source. A flow that reads several sources is listed below each."""
    yield spec.name
    sources = spec.sources()
    yield from _branches([(f"{name}: {source.describe()}", name) for name, source in sources.items()], spec)


def _branches(texts: list[tuple[str, str | None]], spec: PipelineSpec) -> Iterator[str]:
    """`texts`: each with the name of the view whose readers are listed below it."""
    for place, (text, name) in enumerate(texts):
        is_last = place == len(texts) - 1
        yield f"{'└──' if is_last else '├──'} {text}"
        for line in () if name is None else _branches(_readers(spec, name), spec):
            yield f"{'   ' if is_last else '│  '} {line}"


def _readers(spec: PipelineSpec, name: str) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for flow in spec.plan.flows:
        if name in flow.reads:
            others = [one for one in flow.reads if one != name]
            found.append((flow.name + (f" (with {', '.join(others)})" if others else ""), flow.name))
    ends = [query for query in spec.queries if query.step.target.reads == name]
    found += [(f"-> {one.step.target.name}: {one.target.describe()[0]} ({one.target.mode})", None) for one in ends]
    return found
