"""Finds the tables that a flow's Python function reads, and whether it groups, from its source text.

The tables are those named in calls of `table` (`spark.readStream.table("orders")`, `spark.read.table`, `spark.table`)
or in the SQL of calls of `sql`, in the function itself or in functions of its module that it calls.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from moldau.products.pipelines.core.statement import groups, relations_of

_GROUPS = frozenset({"groupBy", "groupby", "rollup", "cube", "groupingSets", "distinct"})
_STATEFUL = frozenset({"transformWithState", "transformWithStateInPandas"})
_ROWS_OF_ITS_OWN = _STATEFUL | {"applyInPandasWithState"}
"""Functions that decide themselves when a group emits a row."""


class FunctionError(Exception):
    """The name of a table cannot be read from the text. `line`: of the text, from 0."""

    def __init__(self, part: int, line: int, call: str) -> None:
        super().__init__(call)
        self.part, self.line, self.call = part, line, call


class FlowFunction(msgspec.Struct, frozen=True):
    """`text`: without layout, comments and decorators. `groups`: in append mode its rows need a watermark;
    `has_watermark`: the function sets one. `is_stateful`: it uses Spark's transformWithState."""

    text: str
    reads: tuple[str, ...]
    groups: bool
    has_watermark: bool
    is_stateful: bool


def read_function(parts: Sequence[str], constants: Mapping[str, object]) -> FlowFunction:
    """`parts`: the source text of the function, then of each function and class that it uses. `constants`: the values
    of names that stand for texts and numbers. Raises FunctionError."""
    trees = [_undecorated(ast.parse(textwrap.dedent(part))) for part in parts]
    calls = [(part, call) for part, tree in enumerate(trees) for call in _calls(tree)]
    called = {node.func.attr for _, node in calls if isinstance(node.func, ast.Attribute)}
    statements = list(_texts(calls, "sql", "sqlQuery", constants))
    tables = list(_texts(calls, "table", "tableName", constants))
    reads = [*tables, *(name for sql in statements for name in relations_of(sql))]
    is_grouped = bool(called & _GROUPS) and not called & _ROWS_OF_ITS_OWN
    used = "".join(f"\n# {name} = {value!r}" for name, value in sorted(constants.items()))
    return FlowFunction(
        text="\n".join(ast.unparse(tree) for tree in trees) + used,
        reads=tuple(dict.fromkeys(reads)),
        groups=is_grouped or any(groups(sql) for sql in statements),
        has_watermark="withWatermark" in called,
        is_stateful=bool(called & _STATEFUL),
    )


def _texts(
    calls: Sequence[tuple[int, ast.Call]], method: str, keyword: str, constants: Mapping[str, object]
) -> Iterator[str]:
    """The first argument of each call of that method."""
    for part, call in calls:
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == method):
            continue
        named = [one.value for one in call.keywords if one.arg == keyword]
        argument = next(iter([*call.args, *named]), None)
        value: object = argument.value if isinstance(argument, ast.Constant) else None
        if isinstance(argument, ast.Name):
            value = constants.get(argument.id)
        if not isinstance(value, str):
            raise FunctionError(part, call.lineno - 1, ast.unparse(call.func))
        yield value


def _calls(tree: ast.Module) -> list[ast.Call]:
    """In the order in which the calls end in the text, which is their order of execution."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))


def _undecorated(tree: ast.Module) -> ast.Module:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list.clear()
    return tree
