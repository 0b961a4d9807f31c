"""Reads a Python module that defines a pipeline with `pyspark.pipelines`.

Spark's decorators register their definitions with the active registry, which is ours while the module is read. No
session is needed, and none exists then (`late_session`).
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import msgspec
from pyspark import pipelines
from pyspark.errors import PySparkException
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    get_active_graph_element_registry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import MaterializedView, Output, Sink, Table, TemporaryView
from pyspark.sql import Column, DataFrame, SparkSession, functions

from moldau.errors import MoldauError
from moldau.spark.definitions.auto_cdc import DefinedChanges, create_auto_cdc_flow
from moldau.spark.definitions.function_code import Part, code_of, is_below
from moldau.spark.definitions.late_session import NO_SPARK, ColumnText, LateSession, no_session, replaced, session_is

MODULE = "__pipeline__"
"""The name of the module while it is read; its file's name may belong to another module."""
_AUTO_CDC = ((pipelines, "create_auto_cdc_flow"), (pipelines.api, "create_auto_cdc_flow"))
"""The places from which a module may import the function."""
_TO_JVM = (functions.builtin, "_invoke_function")
"""The function by which `col`, `expr` and others call the JVM."""


class DefinitionError(MoldauError):
    """The module cannot be read as a pipeline. `line`: None for the whole module."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Declared(msgspec.Struct, frozen=True):
    """The arguments of a call of `moldau.spark.pipelines`, and its line."""

    keys: dict[str, object]
    line: int


class DefinedOutput(msgspec.Struct, frozen=True):
    """`kind`: "view", "table", "materialized view" or "sink". `options`: for a table, its properties. `unmeant`:
    arguments that only matter to Spark's own catalogue."""

    name: str
    kind: str
    line: int
    format: str | None = None
    options: dict[str, object] = {}
    unmeant: tuple[str, ...] = ()


class DefinedFlow(msgspec.Struct, frozen=True):
    """`target`: the name of its output. `parts`: the text of its function, then of the code that it uses. `constants`:
    the texts and numbers that the function uses from outside."""

    name: str
    target: str
    line: int
    function: Callable[[], DataFrame]
    parts: tuple[Part, ...]
    constants: dict[str, object]
    has_settings: bool


class ModuleDefinitions(msgspec.Struct, frozen=True):
    """The definitions of a module, in order. `outputs`, `sources`: by name. Lines are those of the module; for a
    definition in an imported module, the line of the import."""

    pipeline: Declared | None
    sources: dict[str, Declared]
    outputs: dict[str, DefinedOutput]
    flows: list[DefinedFlow]
    changes: list[DefinedChanges]
    files: tuple[Path, ...]
    """The module itself comes first."""


class Definitions(GraphElementRegistry):
    """The active registry while a module runs."""

    def __init__(self, path: Path) -> None:
        self.pipeline: Declared | None = None
        self.sources: dict[str, Declared] = {}
        self.outputs: dict[str, DefinedOutput] = {}
        self.changes: list[DefinedChanges] = []
        self._columns: list[ColumnText] = []
        self._flows: list[tuple[Flow, int]] = []
        self._path = path

    def declare(self, name: str | None, declared: Declared) -> None:
        """`name`: of a source; None: the pipeline itself."""
        if name is None:
            if self.pipeline is not None:
                raise DefinitionError(declared.line, "`pipeline` is called twice")
            self.pipeline = declared
        elif name in self.sources:
            raise DefinitionError(declared.line, f"the source {name} is given twice")
        else:
            self.sources[name] = declared

    def register_output(self, output: Output) -> None:
        line = self._line()
        if output.name in self.outputs:
            raise DefinitionError(line, f"{output.name} is given twice")
        self.outputs[output.name] = _defined(output, line)

    def register_flow(self, flow: Flow) -> None:
        self._flows.append((flow, self._line()))

    def flows(self) -> list[DefinedFlow]:
        """Call it after the module has run, because a function may use definitions below it."""
        return [self._defined_flow(flow, line) for flow, line in self._flows]

    def _line(self) -> int:
        """The module's current line."""
        lines = [frame.lineno for frame in traceback.extract_stack() if Path(frame.filename) == self._path]
        return lines[-1] or 1

    def _defined_flow(self, flow: Flow, line: int) -> DefinedFlow:
        function = inspect.unwrap(flow.func)
        if not inspect.isfunction(function):
            raise DefinitionError(line, f"the flow {flow.name} must be a function")
        parts, constants = code_of(function, self._path.parent)
        return DefinedFlow(
            name=flow.name,
            target=flow.target,
            line=line,
            function=flow.func,
            parts=parts,
            constants=constants,
            has_settings=bool(flow.spark_conf),
        )

    def create_auto_cdc_flow(self, *arguments: Any, **named: Any) -> None:
        """Replaces Spark's own while the module is read."""
        changes = create_auto_cdc_flow(*arguments, **named)
        self.changes.append(msgspec.structs.replace(changes, line=self._line()))
        given = [value for one in (*arguments, *named.values()) for value in (one if isinstance(one, list) else [one])]
        self._columns = [column for column in self._columns if not any(column is one for one in given)]

    def column(self, function: str, *arguments: Any) -> Column:
        """Replaces Spark's `_invoke_function` while the module is read."""
        if function not in ("col", "expr"):
            raise MoldauError(NO_SPARK)
        self._columns.append(ColumnText(function, arguments[0], self._line()))
        return self._columns[-1]

    def check_columns(self) -> None:
        """Call it after the module has run. Raises DefinitionError for a column that no create_auto_cdc_flow used."""
        for column in self._columns:
            raise DefinitionError(column.line, NO_SPARK)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        reason = "this create_auto_cdc_flow was imported before the module is read: import it there"
        raise DefinitionError(self._line(), reason)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise DefinitionError(None, "SQL files of Spark Declarative Pipelines are not read; write SQL in YAML")


def declare(name: str | None, declared: Declared) -> None:
    """Adds to the module that is being read. Raises DefinitionError if there is none."""
    registry = get_active_graph_element_registry()
    if not isinstance(registry, Definitions):
        raise DefinitionError(declared.line, "`moldau pipeline` reads this module; `spark-pipelines` has no such words")
    registry.declare(name, declared)


def read_module(path: Path) -> ModuleDefinitions:
    """Runs the module, and the modules next to it that it imports, all with the name `spark`. Removes them from
    `sys.modules` afterwards, so that Spark pickles their code by value for the tasks. Raises DefinitionError."""
    path = path.resolve()
    directory = path.parent
    definitions = Definitions(path)
    before = set(sys.modules)
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise DefinitionError(None, "is no module of Python")
    module = importlib.util.module_from_spec(spec)
    vars(module)["spark"] = LateSession()
    sys.modules[MODULE] = module
    sys.path.insert(0, str(directory))
    try:
        auto_cdc = dict.fromkeys(_AUTO_CDC, definitions.create_auto_cdc_flow)
        instead = {**auto_cdc, _TO_JVM: definitions.column}
        with graph_element_registration_context(definitions), no_session(), replaced(instead):
            spec.loader.exec_module(module)
        definitions.check_columns()
        for name in _loaded(before, directory):
            vars(sys.modules[name]).setdefault("spark", LateSession())
        return ModuleDefinitions(
            definitions.pipeline,
            definitions.sources,
            definitions.outputs,
            definitions.flows(),
            definitions.changes,
            files=tuple(Path(str(sys.modules[name].__file__)) for name in _loaded(before, directory)),
        )
    except DefinitionError:
        raise
    except (Exception, SystemExit) as error:
        raise DefinitionError(_line_in(path, error), _said(error)) from error
    finally:
        sys.path.remove(str(directory))
        for name in _loaded(before, directory):
            sys.modules.pop(name)


def _loaded(before: Collection[str], directory: Path) -> list[str]:
    """The pipeline's modules that were imported since."""
    return [name for name, module in sys.modules.items() if name not in before and is_below(module, directory)]


def frame_of(function: Callable[[], DataFrame], spark: SparkSession) -> DataFrame:
    """The DataFrame of a flow's function in this session. Raises DefinitionError, and Spark's own errors."""
    try:
        with session_is(spark):
            frame = function()
    except PySparkException:
        raise
    except Exception as error:
        path = Path(function.__code__.co_filename)
        line = _line_in(path, error)
        raise DefinitionError(line, f"{path.name}:{line}: {_said(error)}") from error
    if not isinstance(frame, DataFrame):
        raise DefinitionError(None, f"the function gives {type(frame).__name__}, and no DataFrame")
    return frame


def _defined(output: Output, line: int) -> DefinedOutput:
    if isinstance(output, TemporaryView):
        return DefinedOutput(output.name, "view", line)
    if isinstance(output, Sink):
        return DefinedOutput(output.name, "sink", line, output.format, dict(output.options))
    if not isinstance(output, Table):
        raise DefinitionError(line, f"{type(output).__name__} is not known here")
    kind = "materialized view" if isinstance(output, MaterializedView) else "table"
    words = {"partition_cols": output.partition_cols, "cluster_by": output.cluster_by, "schema": output.schema}
    unmeant = tuple(name for name, value in words.items() if value)
    return DefinedOutput(output.name, kind, line, output.format, dict(output.table_properties), unmeant)


def _line_in(path: Path, error: BaseException) -> int | None:
    """The last line of the module in the error's traceback."""
    if isinstance(error, SyntaxError):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    return lines[-1] if lines else None


def _said(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    if isinstance(error, MoldauError):
        return text
    is_of_spark = "pyspark" in traceback.extract_tb(error.__traceback__)[-1].filename
    if is_of_spark and (isinstance(error, AssertionError) or "SESSION_OR_CONTEXT_NOT_EXISTS" in text):
        return NO_SPARK
    return f"{type(error).__name__}: {text}"
