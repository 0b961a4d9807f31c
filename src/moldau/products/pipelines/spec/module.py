"""Reads a pipeline that is a Python module, with `pyspark.pipelines` and `moldau.spark.pipelines`.

The result is the same as from YAML, with functions in place of SQL.

A view is a flow. A table is a flow and a target of the same name; a flow that reads the table reads that flow. A sink
is a target, and its append flow is a flow. A table of `create_auto_cdc_flow` is a target of changes without a flow.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import yaml

from moldau.products.pipelines.core.function import FunctionError, read_function
from moldau.products.pipelines.core.plan import FlowStep, PlanError
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.targets import all_targets
from moldau.types import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from moldau.spark import DataFrame
    from moldau.spark.definitions.auto_cdc import DefinedChanges
    from moldau.spark.definitions.definitions import DefinedFlow, DefinedOutput, ModuleDefinitions

KEYS_OF_FORMATS = {"kafka": "topic", "moldau": "topic", "parquet": "path"}
"""Spark's format names, with the pipeline key for each that differs."""

TABLES = "tables"
"""The default directory of tables, next to the module."""
TABLE_FORMAT = "delta"
_MODES = {"table": "append", "materialized view": "update"}
_NO_SETTINGS = "no meaning here: all flows share one session"


Entry = tuple[yaml.Node, yaml.Node]


class WrittenModule(msgspec.Struct, frozen=True):
    """`spec`: the module without its flows, in the form of a YAML pipeline file. `functions`: by the names of the
    flows. `files`: the module, and the files next to it that it imports."""

    spec: yaml.Node
    flows: list[FlowStep]
    functions: dict[str, Callable[[], DataFrame]]
    files: tuple[Path, ...]


def read_pipeline(path: Path) -> WrittenModule:
    """Raises SpecError, MissingExtraError."""
    from moldau.spark.definitions.definitions import DefinitionError, read_module

    try:
        return _written(read_module(path))
    except (DefinitionError, PlanError) as error:
        raise SpecError(f"{path}:{error.line or 1}: {error}") from error


def _written(defined: ModuleDefinitions) -> WrittenModule:
    """Raises PlanError."""
    head = defined.pipeline
    if head is None:
        reason = "the module has no pipeline: write `pipeline(NAME, bootstrap_servers=...)` of moldau.spark.pipelines"
        raise PlanError(1, reason)
    for key in ("source", "sources", "sql", "flows", "sink", "targets"):
        if key in head.keys:
            raise PlanError(head.line, f"`{key}` stands in the module itself, not in its `pipeline`")
    by_target = _flows_by_target(defined)
    changes = _changes_by_target(defined, by_target)
    flows: dict[str, DefinedFlow] = {}
    targets: list[Entry] = []
    for output in defined.outputs.values():
        if output.name in changes:
            targets.append(_changed_table(output, changes[output.name]))
            continue
        if output.name not in by_target:
            words = "`append_flow`" if output.kind == "sink" else "`append_flow` or `create_auto_cdc_flow`"
            raise PlanError(output.line, f"no flow goes to {output.name}: write one with {words}")
        flow = by_target[output.name]
        name = flow.name if output.kind == "sink" else output.name
        flows[name] = flow
        if output.kind != "view":
            keys = {"mode": _MODES[output.kind]} if output.kind != "sink" else {}
            targets.append(_entry(output.name, {**keys, **_target_keys(output), "from": name}, output.line))
    _check_sources(changes.values(), [*defined.sources, *flows])
    sources = [_entry(name, source.keys, source.line) for name, source in defined.sources.items()]
    entries = [_entry(key, value, head.line) for key, value in head.keys.items()]
    entries += [(_node("sources", head.line), _mapping(sources, head.line))]
    entries += [(_node("targets", head.line), _mapping(targets, head.line))]
    return WrittenModule(
        spec=_mapping(entries, head.line),
        flows=[_flow_step(name, flow, defined.files[0]) for name, flow in flows.items()],
        functions={name: flow.function for name, flow in flows.items()},
        files=defined.files,
    )


def _flows_by_target(defined: ModuleDefinitions) -> dict[str, DefinedFlow]:
    """Each flow must have an output, and each output at most one flow. Raises PlanError."""
    found: dict[str, DefinedFlow] = {}
    for flow in defined.flows:
        if flow.target not in defined.outputs:
            what = f"{flow.name} goes to {flow.target}, which is no table and no sink"
            raise PlanError(flow.line, what + _near(flow.target, defined.outputs))
        first = found.setdefault(flow.target, flow)
        if first is not flow:
            reason = (
                f"{flow.name} goes to {flow.target} as {first.name} does: make one flow of them, with `unionByName`"
            )
            raise PlanError(flow.line, reason)
        if flow.has_settings:
            raise PlanError(flow.line, f"`spark_conf` of {flow.name} has {_NO_SETTINGS}")
    return found


def _changes_by_target(defined: ModuleDefinitions, flows: Mapping[str, DefinedFlow]) -> dict[str, DefinedChanges]:
    """`flows`: by target. Raises PlanError."""
    found: dict[str, DefinedChanges] = {}
    tables = [output.name for output in defined.outputs.values() if output.kind == "table"]
    for changes in defined.changes:
        to = changes.target
        if to not in tables:
            reason = f"changes go to {to}, which is no table of `create_streaming_table`{_near(to, tables)}"
            raise PlanError(changes.line, reason)
        if to in flows or to in found:
            reason = f"{to} takes the changes of one source and nothing else: make one view of them with `unionByName`"
            raise PlanError(changes.line, reason)
        if changes.has_settings:
            raise PlanError(changes.line, f"`spark_conf` of {to} has {_NO_SETTINGS}")
        found[to] = changes
    return found


def _check_sources(changes: Iterable[DefinedChanges], views: Sequence[str]) -> None:
    """Checked here because an error about the YAML key `from` would not fit a module. Raises PlanError."""
    for one in changes:
        if one.source.lower() not in map(str.lower, views):
            reason = f"`source` of create_auto_cdc_flow is {one.source}, which is no source and no flow"
            raise PlanError(one.line, reason + _near(one.source, views))


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return "" if near is None else f" (did you mean {near}?)"


def _flow_step(name: str, flow: DefinedFlow, module: Path) -> FlowStep:
    """Raises PlanError."""
    if not name.isidentifier():
        raise PlanError(flow.line, f"`{name}` must be a word that SQL can read: letters, digits and underscores")
    try:
        told = read_function([part.text for part in flow.parts], flow.constants)
    except FunctionError as error:
        reason = "without a name that its text tells: write a text, or a constant of the module"
        part = flow.parts[error.part]
        line = part.line + error.line if part.file == module else flow.line
        raise PlanError(line, f"{name} calls `{error.call}` {reason}") from None
    return FlowStep(
        name=name,
        place=f"flows.{name}",
        line=flow.line,
        text=told.text,
        reads=told.reads,
        groups=told.groups,
        has_watermark=told.has_watermark,
        is_stateful=told.is_stateful,
    )


def _target_keys(output: DefinedOutput) -> dict[str, object]:
    """The keys of the target in a pipeline file. Raises PlanError."""
    if output.unmeant:
        raise PlanError(output.line, f"`{output.unmeant[0]}` of {output.name} has no meaning here")
    key = output.format or TABLE_FORMAT
    key = KEYS_OF_FORMATS.get(key, key)
    options = {key if name == "path" else name: value for name, value in output.options.items()}
    return options if output.kind == "sink" else {key: f"{TABLES}/{output.name}", **options}


def _changed_table(output: DefinedOutput, changes: DefinedChanges) -> Entry:
    """A target of changes. Raises PlanError."""
    keys = _target_keys(output)
    takers = [name for name, kind in all_targets().items() if "sequence_by" in kind.KEYS]
    if not keys.keys() & set(takers):
        reason = f"{output.name} takes changes, which its `format` cannot: it must be one of {', '.join(takers)}"
        raise PlanError(output.line, reason)
    entries = [_entry(key, value, output.line) for key, value in keys.items()]
    entries += [_entry(key, value, changes.line) for key, value in (*changes.keys.items(), ("from", changes.source))]
    return _node(output.name, changes.line), _mapping(entries, output.line)


# --- values in YAML's form, with their lines in the module ---


def _entry(key: str, value: object, line: int) -> Entry:
    return _node(key, line), _node(value, line)


def _node(value: object, line: int) -> yaml.Node:
    """Raises PlanError."""
    try:
        text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=sys.maxsize)
    except yaml.YAMLError:
        raise PlanError(line, f"{value!r} must be a text, a number, a list or a mapping of such") from None
    node = yaml.compose("\n" * (line - 1) + text, yaml.SafeLoader)
    if node is None:
        raise PlanError(line, "a value is missing")
    return node


def _mapping(entries: list[Entry], line: int) -> yaml.Node:
    mark = _node({}, line).start_mark
    return yaml.MappingNode("tag:yaml.org,2002:map", entries, mark, mark)
