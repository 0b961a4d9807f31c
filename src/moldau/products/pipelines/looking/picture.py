"""Draws the plan of a pipeline: sources on the left, then flows, then targets (`draw_plan`)."""

from __future__ import annotations

from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.service.look.plan import Box, Edge

STYLE = """
.box rect { fill: #fff; stroke: #8aa; }
.source rect { fill: #e8f1f8; } .target rect { fill: #eaf5ea; } .trouble rect { stroke: #c33; stroke-width: 2; }
.edge { fill: none; stroke: #9ab; stroke-width: 1.5; }
text { font: 13px system-ui, sans-serif; fill: #123; } .note { font-size: 11px; fill: #567; }
"""


def boxes_and_edges(spec: PipelineSpec) -> tuple[list[Box], list[Edge]]:
    """A box for each source, flow and target of the pipeline, and an edge for each read."""
    plan, sources = spec.plan, spec.sources()
    targets = {query.step.target.name: f"{query.target.describe()[0]} ({query.target.mode})" for query in spec.queries}
    steps = [*plan.sources, *plan.flows]
    places = {step.name: place for place, step in enumerate(steps)}
    boxes = [Box(source.name, "source", sources[source.name].describe()) for source in plan.sources]
    boxes += [Box(flow.name, "flow", "grouped" if flow.groups else "") for flow in plan.flows]
    boxes += [Box(target.name, "target", targets[target.name]) for target in plan.targets]
    edges = [Edge(places[name], places[flow.name]) for flow in plan.flows for name in dict.fromkeys(flow.reads)]
    edges += [Edge(places[target.reads], len(steps) + place) for place, target in enumerate(plan.targets)]
    return boxes, edges
