"""The plan of a pipeline: sources, the flows made from them, and the targets that they go to.

Each target is one streaming query with its own checkpoint, group and transactions. All queries run in one Spark
session. The edges are the names that the flows' SQL reads. A plan is a value: it is built, compared and printed without
Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import msgspec

from moldau.errors import MoldauError
from moldau.products.pipelines.core.statement import groups, relations_of
from moldau.types import nearest

Facts = Mapping[str, str | None]
"""The facts that decide which rows a step gives. A checkpoint's offsets and aggregates are valid for these facts
only."""


class PlanError(MoldauError):
    """The parts do not form a plan. `line`: of the pipeline file. The message says what to write instead."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """`place`: the path of keys to it in the pipeline file, such as `flows.big`; `line`: its line there."""

    name: str
    place: str
    line: int = 0


class SourceStep(Step, frozen=True, kw_only=True):
    """`watermark`: how late a record may be; None: never too late. `is_stream`: it has no end; otherwise it is a table
    to join with."""

    facts: Facts
    watermark: str | None = None
    is_stream: bool = True


class FlowStep(Step, frozen=True, kw_only=True):
    """A view: one SELECT, or a Python function. `text`: of either. `reads`: sources and other flows, in the order of
    the text. `groups`: in append mode it emits a row only after a watermark has completed the group; `has_watermark`:
    it sets a watermark itself. `is_stateful`: it uses Spark's transformWithState."""

    text: str
    reads: tuple[str, ...]
    groups: bool
    has_watermark: bool = False
    is_stateful: bool = False


class TargetStep(Step, frozen=True, kw_only=True):
    """`reads`: the flow or source whose rows it gets. `facts`: besides the mode, the facts that decide which rows those
    are."""

    reads: str
    mode: str
    facts: Facts = {}


class Query(msgspec.Struct, frozen=True):
    """One streaming query: a target and everything upstream, with the flows in the order of their creation."""

    sources: tuple[SourceStep, ...]
    flows: tuple[FlowStep, ...]
    target: TargetStep

    def facts(self) -> dict[str, str | None]:
        """The facts that the query's checkpoint belongs to, by their places in the pipeline file."""
        found: dict[str, str | None] = {}
        for source in self.sources:
            found |= {f"{source.place}.{name}": fact for name, fact in source.facts.items()}
        found |= {flow.place: flow.text for flow in self.flows}
        target = {"mode": self.target.mode, **self.target.facts}
        return {**found, **{f"{self.target.place}.{name}": fact for name, fact in target.items()}}


class Plan(msgspec.Struct, frozen=True):
    """Made by `make_plan`, which rejects a plan that cannot run."""

    name: str
    sources: tuple[SourceStep, ...]
    flows: tuple[FlowStep, ...]
    targets: tuple[TargetStep, ...]

    def queries(self) -> Iterator[Query]:
        """One for each target, in the order of the pipeline file."""
        for target in self.targets:
            needed = _upstream(self.flows, target.reads)
            yield Query(
                sources=tuple(source for source in self.sources if source.name in needed),
                flows=tuple(flow for flow in self.flows if flow.name in needed),
                target=target,
            )

    def upstream(self, name: str) -> list[FlowStep]:
        """The flows upstream of a flow or source, itself included."""
        needed = _upstream(self.flows, name)
        return [flow for flow in self.flows if flow.name in needed]


def make_flow(name: str, sql: str, *, place: str, line: int = 0) -> FlowStep:
    sql = sql.strip().rstrip(";")
    return FlowStep(name=name, place=place, line=line, text=sql, reads=relations_of(sql), groups=groups(sql))


def make_plan(
    name: str, sources: Iterable[SourceStep], flows: Iterable[FlowStep], targets: Iterable[TargetStep]
) -> Plan:
    """Puts each flow after the flows that it reads. Raises PlanError."""
    sources, flows, targets = tuple(sources), tuple(flows), tuple(targets)
    _refuse_double_names([*sources, *flows])
    views = {step.name: step for step in (*sources, *flows)}
    flows = tuple(_resolve(flow, views) for flow in flows)
    targets = tuple(_resolve_target(target, views) for target in targets)
    plan = Plan(name, sources, _in_order(flows), targets)
    used = {step.name for query in plan.queries() for step in (*query.sources, *query.flows)}
    for step in (*sources, *flows):
        if step.name not in used:
            raise PlanError(
                step.line, f"`{step.place}` is read by no target: name it in a target's `from`, or delete it"
            )
    for query in plan.queries():
        _check_query(query)
    return plan


def _refuse_double_names(steps: Iterable[Step]) -> None:
    """Names of views in Spark are not case-sensitive."""
    seen: dict[str, Step] = {}
    for step in steps:
        first = seen.setdefault(step.name.lower(), step)
        if first is not step:
            raise PlanError(step.line, f"`{step.place}` has the name of `{first.place}`: SQL reads both by their names")


def _named(name: str, views: Mapping[str, Step]) -> str | None:
    """The view of this name in any case, as in SQL."""
    return next((known for known in views if known.lower() == name.lower()), None)


def _resolve(flow: FlowStep, views: Mapping[str, Step]) -> FlowStep:
    reads = []
    others = {name: view for name, view in views.items() if name != flow.name}
    for name in flow.reads:
        known = _named(name, views)
        if known is None:
            what = f"`{flow.place}` reads {name}, which is no source and no flow"
            raise PlanError(flow.line, what + _near(name, others))
        reads.append(known)
    if not reads:
        raise PlanError(flow.line, f"`{flow.place}` reads no source and no flow{_there_are(others)}")
    return msgspec.structs.replace(flow, reads=tuple(dict.fromkeys(reads)))


def _resolve_target(target: TargetStep, views: Mapping[str, Step]) -> TargetStep:
    known = _named(target.reads, views)
    if known is None:
        what = f"`{target.place}` takes the rows of {target.reads}, which is no source and no flow"
        raise PlanError(target.line, f"{what}{_near(target.reads, views)}; `from` names one")
    return msgspec.structs.replace(target, reads=known)


def _near(name: str, views: Mapping[str, Step]) -> str:
    near = nearest(name, views)
    return _there_are(views) if near is None else f" (did you mean {near}?)"


def _there_are(views: Mapping[str, Step]) -> str:
    return f"; there {'is' if len(views) == 1 else 'are'} {', '.join(views)}"


def _in_order(flows: tuple[FlowStep, ...]) -> tuple[FlowStep, ...]:
    """In the order of the pipeline file, as far as the edges allow."""
    by_name = {flow.name: flow for flow in flows}
    sorter = TopologicalSorter({flow.name: [name for name in flow.reads if name in by_name] for flow in flows})
    try:
        return tuple(by_name[name] for name in sorter.static_order())
    except CycleError as error:
        circle = [str(name) for name in error.args[1]]
        first = by_name[circle[0]]
        raise PlanError(first.line, f"`{first.place}` reads itself: {' <- '.join(circle)}") from None


def _upstream(steps: Iterable[FlowStep], name: str) -> set[str]:
    """All steps upstream of `name`, itself included."""
    flows = {flow.name: flow for flow in steps}
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += flows[one].reads if one in flows else ()
    return found


def _check_query(query: Query) -> None:
    target = query.target
    streams = [source for source in query.sources if source.is_stream]
    if not streams:
        raise PlanError(
            target.line, f"`{target.place}` reads no stream: {query.sources[0].name} is a table, to join with"
        )
    has_watermark = any(source.watermark is not None for source in streams) or any(
        flow.has_watermark for flow in query.flows
    )
    if target.mode != "append" or has_watermark:
        return
    for flow in query.flows:
        if flow.groups:
            source = streams[0]
            raise PlanError(
                flow.line,
                f"`{flow.place}` groups rows, and the mode append gives a group only when no row of it can come any "
                f"more: say how late rows may be with `{source.place}.watermark`, such as `10 seconds`, or write every "
                f"change of a group with `mode: update` in `{target.place}`",
            )
