"""A pipeline file: YAML with the sources of a pipeline, its flows in SQL, and its targets.

    name: shop
    bootstrap_servers: 127.0.0.1:9092                   # or `cluster`, with TLS and a login: `core.cluster`
    sources:                                            # each is a view that SQL reads by its name
      orders:
        topic: orders                                   # or `pattern: orders-.*`; `sources` has the kinds
        format: json                                    # json | string | binary
        schema: user string, amount double, at timestamp
        event_time: at
        watermark: 10 seconds
      users: {topic: users, format: json, schema: name string, as: table}     # streams are joined with it
    flows:                                              # each is a view too: one SELECT, inline or in a file
      big: select * from orders where amount > ${LEAST}
      per_minute: {sql_file: per_minute.sql}
    targets:                                            # each is one streaming query; `targets` has the kinds
      lake: {from: big, path: out/big}
      per_minute: {topic: orders-per-minute, key: user, mode: update}    # `from` is its own name, if not said
    checkpoint: checkpoints/shop                        # default: checkpoints/<name>
    tests: ...                                          # records and the rows that they give: `cases`
    group: moldau.shop                                  # default: moldau.<name>; where progress and lag show
    batch_interval: 1 minute                            # default: a batch begins when the one before is done
    first_contact_timeout: 10 seconds                   # how long a cluster is tried that has never answered
    retry_timeout: 5 minutes                            # how long a broker is tried that was lost

Of one source, one flow and one target, `source`, `sql` and `sink` are the short form: SQL reads the view `source`.

The pipeline file is strict: an unknown key, a missing key or an invalid value is rejected with its line. Paths are
relative to the directory of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import yaml

from moldau.client.protocol.access import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS, ClusterAccess
from moldau.products.pipelines.core.case import Case
from moldau.products.pipelines.core.cluster import CLUSTER_KEYS, spec_cluster
from moldau.products.pipelines.core.commit_metadata import GROUP_PREFIX
from moldau.products.pipelines.core.plan import (
    FlowStep,
    Plan,
    PlanError,
    Query,
    SourceStep,
    TargetStep,
    make_flow,
    make_plan,
)
from moldau.products.pipelines.core.section import SPEC, Section, SpecError
from moldau.products.pipelines.sources import all_sources
from moldau.products.pipelines.sources.records import RecordSource
from moldau.products.pipelines.sources.source import COMMON_KEYS, Source, SpecHead
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.spec.cases import parse_cases
from moldau.products.pipelines.spec.keys import (
    BATCH_INTERVAL,
    CHECKPOINT,
    FIRST_CONTACT_TIMEOUT,
    FLOW_KEYS,
    FLOWS,
    FROM,
    GROUP,
    LONG_FORM,
    MORE_KEYS,
    NAME,
    RETRY_TIMEOUT,
    SHORT_FORM,
    SINK,
    SOURCE,
    SOURCES,
    SQL,
    SQL_FILE,
    TARGETS,
    TESTS,
)
from moldau.products.pipelines.spec.module import WrittenModule, read_pipeline
from moldau.products.pipelines.targets import all_targets
from moldau.products.pipelines.targets.target import Target

if TYPE_CHECKING:
    from moldau.spark import DataFrame

Kind = TypeVar("Kind", Source, Target)


class PipelineQuery(msgspec.Struct, frozen=True):
    """One streaming query of the pipeline, with everything that belongs only to it. `sources`: by the names of their
    views. `access`: to the cluster of a target topic, otherwise the pipeline's; the group for offsets that a target
    commits with its batches is on that cluster. `dead_letters_of`: the sources whose dead letters this query keeps; for
    a source of several queries, the first keeps them."""

    name: str
    step: Query
    sources: dict[str, Source]
    target: Target
    access: ClusterAccess
    checkpoint: Path
    group: str
    transactional_id: str
    dead_letters_of: tuple[str, ...]

    @property
    def places(self) -> tuple[str, ...]:
        """The places of its rows, in the same form in every pipeline file. Includes a topic, though it may have several
        writers."""
        topic, access = self.target.topic, self.target.access
        if topic is None:
            return self.target.places()
        return (f"topic {topic}" if access is None else f"topic {topic} on {access}",)

    @property
    def clusters_of_group(self) -> list[ClusterAccess]:
        """The clusters on which its group shows its progress: those of its streams, and that of a target topic."""
        streams = [source.access for source in self.streams().values()]
        return list(dict.fromkeys(streams if self.target.topic is None else [self.access, *streams]))

    def topics(self) -> Iterator[TopicSource]:
        return (source for source in self.sources.values() if isinstance(source, TopicSource))

    def streams(self) -> dict[str, TopicSource]:
        """The topics whose offsets the query tracks, without those that are read as tables."""
        found = self.sources.items()
        return {name: one for name, one in found if isinstance(one, TopicSource) and not one.as_table}


class PipelineSpec(msgspec.Struct, frozen=True):
    """`access`: to the cluster of dead letters, and of topics that name no cluster. `checkpoint`: the directory with
    the checkpoints of all queries. `files`: the files that it was read from, if any.
    `functions`: the flows in Python. `cases`: the tests of the pipeline. `batch_interval_ms`: micro-batches begin at
    multiples of it; 0: as soon as possible."""

    plan: Plan
    access: ClusterAccess
    queries: tuple[PipelineQuery, ...]
    checkpoint: Path
    file_name: str
    files: tuple[Path, ...] = ()
    functions: Mapping[str, Callable[[], DataFrame]] = {}
    cases: tuple[Case, ...] = ()
    batch_interval_ms: int = 0
    first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS
    retry_timeout_ms: int = RETRY_TIMEOUT_MS

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def clusters(self) -> list[ClusterAccess]:
        """All clusters that its queries use, and `access`."""
        found = [(query.access, *(source.access for source in query.topics())) for query in self.queries]
        return list(dict.fromkeys((self.access, *chain(*found))))

    def sources(self) -> dict[str, Source]:
        """The sources of all queries, by the names of their views."""
        return {name: source for query in self.queries for name, source in query.sources.items()}


def load_spec(
    path: Path,
    parameters: Mapping[str, str] | None = None,
    *,
    profile: str | None = None,
    cluster: ClusterAccess | None = None,
) -> PipelineSpec:
    """Reads and checks the pipeline file, in YAML or a Python module (`module`). `parameters`: the values for
    `${NAME}`. `profile`, or else `cluster`: that of a pipeline that names none. Raises SpecError."""
    # a path that is not a file, such as a pipe, has no useful directory
    directory = path.resolve().parent if os.path.isfile(path) else Path.cwd()
    if path.suffix == ".py":
        written = read_pipeline(path)
        return _make_spec(Section(str(path), SPEC, written.spec, parameters), directory, profile, cluster, written)
    section = Section(str(path), SPEC, _compose(read_text(path), str(path)), parameters)
    spec = _make_spec(section, directory, profile, cluster)
    return msgspec.structs.replace(spec, files=(path, *spec.files))


def read_text(path: Path) -> str:
    """The file's content. Raises SpecError."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
        raise SpecError(f"{path}: cannot be read: {reason}") from error


def parse_spec(
    text: str,
    *,
    file_name: str,
    directory: Path,
    parameters: Mapping[str, str] | None = None,
    profile: str | None = None,
) -> PipelineSpec:
    """As load_spec, from YAML text; `directory` is the base of relative paths."""
    return _make_spec(Section(file_name, SPEC, _compose(text, file_name), parameters), directory, profile, None)


def _make_spec(
    spec: Section,
    directory: Path,
    profile: str | None,
    cluster: ClusterAccess | None,
    written: WrittenModule | None = None,
) -> PipelineSpec:
    """`written`: the module, if the flows come from one."""
    is_long = any(spec.has(key) for key in LONG_FORM)
    spec.allow(NAME, *CLUSTER_KEYS, *(LONG_FORM if is_long else SHORT_FORM), *MORE_KEYS)
    name = NAME.of(spec)
    if not _is_name(name, 200):
        spec.refuse(NAME, "must be 1 to 200 letters, digits, dots, dashes or underscores, and not only dots")
    checkpoint = spec.local_path(CHECKPOINT, directory, default=f"checkpoints/{name}")
    head = SpecHead(name, spec_cluster(spec, directory, profile, cluster), directory, checkpoint)
    if is_long:
        flows, files = (written.flows, written.files) if written else _parse_flows(spec, directory)
        parts = _long_form(spec, head, flows)
    else:
        parts, files = _short_form(spec, head), ()
    group = spec.text(GROUP, default=GROUP_PREFIX + name)
    try:
        plan = make_plan(name, [step for step, _ in parts.sources], parts.flows, [step for step, _ in parts.targets])
        queries = tuple(_queries(plan, parts, head, group, is_long=is_long))
    except PlanError as error:
        raise SpecError(f"{spec.file_name}:{error.line}: {error}") from None
    results = dict.fromkeys(step.name for step in (*plan.flows, *plan.targets))
    views = [source.name for source in plan.sources]
    return PipelineSpec(
        plan=plan,
        access=head.access,
        queries=queries,
        checkpoint=checkpoint,
        file_name=spec.file_name,
        files=files,
        functions=written.functions if written else {},
        cases=tuple(parse_cases(TESTS.of(spec), views, results)) if spec.has(TESTS) else (),
        batch_interval_ms=BATCH_INTERVAL.of(spec),
        first_contact_timeout_ms=FIRST_CONTACT_TIMEOUT.of(spec),
        retry_timeout_ms=RETRY_TIMEOUT.of(spec),
    )


def _is_name(text: str, longest: int) -> bool:
    """Whether the text is a valid name for a group and a directory."""
    return len(text) <= longest and re.fullmatch(r"[a-zA-Z0-9._-]+", text) is not None and bool(text.strip("."))


def _compose(text: str, file_name: str) -> yaml.Node:
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise SpecError(f"{file_name}:{line}: no YAML: {getattr(error, 'problem', error)}") from error
    except RecursionError as error:
        raise SpecError(f"{file_name}:1: YAML nested too deeply") from error
    if node is None:
        raise SpecError(f"{file_name}:1: the pipeline file is empty")
    return node


# --- the two forms ---


class _Parts(msgspec.Struct, frozen=True):
    """The steps of the plan, with their sources and targets."""

    sources: list[tuple[SourceStep, Source]]
    flows: list[FlowStep]
    targets: list[tuple[TargetStep, Target]]


def _short_form(spec: Section, head: SpecHead) -> _Parts:
    """The source is named `source`; the flow and the target are named after the pipeline."""
    flow = make_flow(head.name, SQL.of(spec), place="sql", line=spec.line_of(SQL))
    return _Parts(
        [_parse_source(spec, SOURCE, "source", head)],
        [flow],
        [_parse_target(spec, SINK, head.name, head.directory, reads=flow.name)],
    )


def _long_form(spec: Section, head: SpecHead, flows: list[FlowStep]) -> _Parts:
    sources, targets = SOURCES.of(spec), TARGETS.of(spec)
    if not targets.entries():
        targets.refuse(None, "must name a target, such as `lake: {from: orders, path: out}`")
    for name in targets.entries():
        if not _is_name(name, 100):
            targets.refuse(name, "must be 1 to 100 letters, digits, dots, dashes or underscores, and not only dots")
    return _Parts(
        [_parse_source(sources, name, _view(sources, name), head) for name in sources.entries()],
        flows,
        [
            _parse_target(targets, name, name, head.directory, reads=targets.section(name).text(FROM, default=name))
            for name in targets.entries()
        ],
    )


def _view(section: Section, name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        section.refuse(name, "must be a word that SQL can read: letters, digits and underscores")
    return name


def _parse_source(section: Section, key: str, name: str, head: SpecHead) -> tuple[SourceStep, Source]:
    source = section.section(key)
    kinds = all_sources()
    kind = _kind(source, kinds, COMMON_KEYS)
    source.allow(*kind.NAMED_BY, *kind.KEYS, *COMMON_KEYS)
    parsed = kind.parse(source, head)
    step = SourceStep(
        name=name,
        place=source.name,
        line=section.line_of(key),
        facts=parsed.all_facts(),
        watermark=parsed.watermark,
        is_stream=not parsed.as_table,
    )
    return step, parsed


def _parse_target(section: Section, key: str, name: str, directory: Path, *, reads: str) -> tuple[TargetStep, Target]:
    sink = section.section(key)
    kinds = all_targets()
    more = () if section.name == SPEC else (FROM,)
    kind = _kind(sink, kinds, more)
    sink.allow(kind.NAMED_BY, *kind.KEYS, *more)
    parsed = kind.parse(sink, directory)
    step = TargetStep(
        name=name, place=sink.name, line=section.line_of(key), reads=reads, mode=parsed.mode, facts=parsed.facts()
    )
    return step, parsed


def _kind(section: Section, kinds: Mapping[str, type[Kind]], more: Sequence[str]) -> type[Kind]:
    """`more`: the keys allowed in every kind."""
    named = [kind for key, kind in kinds.items() if section.has(key)]
    if len(named) != 1:
        section.allow(*kinds, *dict.fromkeys(key for kind in kinds.values() for key in kind.KEYS), *more)
        section.refuse(None, f"needs exactly one of `{'`, `'.join(kinds)}`")
    return named[0]


def _parse_flows(spec: Section, directory: Path) -> tuple[list[FlowStep], tuple[Path, ...]]:
    """A text is SQL. A mapping has `sql`, or `sql_file`, a path; returns those files too."""
    if not spec.has(FLOWS):
        return [], ()
    flows = FLOWS.of(spec)
    steps: list[FlowStep] = []
    files: list[Path] = []
    for name in flows.entries():
        if flows.is_text(name):
            sql = flows.text(name)
        else:
            flow = flows.section(name)
            flow.allow(*FLOW_KEYS)
            if flow.has(SQL) == flow.has(SQL_FILE):
                flow.refuse(None, "needs either `sql` or `sql_file`")
            if flow.has(SQL):
                sql = SQL.of(flow)
            else:
                files.append(SQL_FILE.of(flow, directory))
                sql = flow.fill(SQL_FILE, read_text(files[-1]), 1, str(files[-1]))
        steps.append(make_flow(_view(flows, name), sql, place=f"{flows.name}.{name}", line=flows.line_of(name)))
    return steps, tuple(files)


def _queries(plan: Plan, parts: _Parts, head: SpecHead, group: str, *, is_long: bool) -> Iterator[PipelineQuery]:
    """The only query of the short form is named as the pipeline. Raises PlanError."""
    sources = {step.name: source for step, source in parts.sources}
    kept: set[str] = set()
    for step, (_, target) in zip(plan.queries(), parts.targets, strict=True):
        name = step.target.name
        own = {source.name: sources[source.name] for source in step.sources}
        _refuse_mixed_offsets(step, own)
        access = target.access or head.access
        if target.access == head.access:
            target = msgspec.structs.replace(target, access=None)  # as without a cluster: one place
        _refuse_circle(step, own, target, access)
        dead_letters_of = tuple(name for name in own if name not in kept)
        kept.update(dead_letters_of)
        yield PipelineQuery(
            name=f"{plan.name}.{name}" if is_long else plan.name,
            step=step,
            sources=own,
            target=target,
            access=access,
            checkpoint=head.checkpoint / name if is_long else head.checkpoint,
            group=f"{group}.{name}" if is_long else group,
            transactional_id=f"{plan.name}.{name if is_long else target.topic or name}",
            dead_letters_of=dead_letters_of,
        )


def _refuse_circle(step: Query, sources: Mapping[str, Source], target: Target, access: ClusterAccess) -> None:
    """`access`: to the cluster of a target topic. Raises PlanError."""
    for source in step.sources:
        read = sources[source.name]
        if not source.is_stream:
            continue
        if isinstance(read, TopicSource):
            reads_it = target.topic is not None and read.access == access and read.reads(target.topic)
            what, other = f"writes to the topic {target.topic}", "another topic"
        else:
            # a source does not read rows again that replace others
            reads_it = target.mode == "append" and not set(read.places()).isdisjoint(target.places())
            what, other = f"writes to {target.describe()[0]}", f"another place with `{target.NAMED_BY}`"
        if reads_it:
            raise PlanError(
                step.target.line,
                f"`{step.target.place}` {what}, which `{source.place}` reads: each row would be read again without "
                f"end; name {other}",
            )


def _refuse_mixed_offsets(step: Query, sources: Mapping[str, Source]) -> None:
    """In a query's checkpoint and dead letters, a topic is identified only by its name. Raises PlanError."""
    streams = [sources[source.name] for source in step.sources if source.is_stream]
    for one, other in combinations((source for source in streams if isinstance(source, TopicSource)), 2):
        both = _read_by_both(one, other) if one.access != other.access else None
        if both is not None:
            what = f"`{step.target.place}` reads the {both} of {one.access} and of {other.access}"
            raise PlanError(step.target.line, f"{what}: one query cannot tell their offsets from each other")


def _read_by_both(one: TopicSource, other: TopicSource) -> str | None:
    """Topics that both sources read, in words, as far as the pipeline file shows. Whether two patterns match one topic
    shows only when it exists."""
    if one.pattern is not None and one.pattern == other.pattern:
        return f"topics {one.pattern}"
    named = ((one.topic, other), (other.topic, one))
    return next((f"topic {topic}" for topic, source in named if topic is not None and source.reads(topic)), None)


def describe(spec: PipelineSpec) -> Mapping[str, str]:
    """The pipeline in a few words, for people."""
    facts = {"pipeline": spec.name, "cluster": str(spec.access)}
    is_long = spec.queries[0].checkpoint != spec.checkpoint
    dead_letters: dict[str, None] = {}
    for name, source in spec.sources().items():
        what = source.describe()
        if isinstance(source, TopicSource) and source.access != spec.access:
            what += f", on {source.access}"
        facts[f"{'table' if source.as_table else 'source'} {name}" if is_long else "from"] = what
        if source.as_table:
            when = f"every {source.refresh_ms / 1_000:g} s" if source.refresh_ms else "by each batch"
            facts[f"table {name}"] += f", read again {when}"
        if isinstance(source, RecordSource) and source.dead_letters is not None:
            dead_letters[source.dead_letters] = None
    if dead_letters:
        facts["dead letters"] = f"topic {', '.join(dead_letters)}"
    if is_long:
        facts |= {f"flow {flow.name}": f"reads {', '.join(flow.reads)}" for flow in spec.plan.flows}
    for query in spec.queries:
        to, promise = query.target.describe()
        if is_long:
            facts[f"target {query.step.target.name}"] = f"{to} ({query.target.mode}), {promise}"
        else:
            facts |= {"to": f"{to} ({query.target.mode})", "delivery": promise}
    return {**facts, "checkpoint": str(spec.checkpoint), "group": ", ".join(query.group for query in spec.queries)}
