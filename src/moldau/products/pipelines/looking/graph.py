"""A page as a picture of text: each source, the flows that read it, and the targets at the ends."""

from __future__ import annotations

from rich.tree import Tree

from moldau.products.pipelines.page.page import PipelinePage


def graph_of(page: PipelinePage) -> Tree:
    """A tree for each source. A flow that reads several stands below each of them."""
    root = Tree(page.name)
    for name, source in page.sources().items():
        _grow(page, root.add(f"{name}: {source.describe()}"), name)
    return root


def _grow(page: PipelinePage, tree: Tree, name: str) -> None:
    for flow in page.plan.flows:
        if name in flow.reads:
            others = [one for one in flow.reads if one != name]
            _grow(page, tree.add(flow.name + (f" (with {', '.join(others)})" if others else "")), flow.name)
    for query in page.queries:
        if query.step.target.reads == name:
            to, _ = query.target.describe()
            tree.add(f"-> {query.step.target.name}: {to} ({query.target.mode})")
