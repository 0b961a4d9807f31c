"""Functions of the shell have few parameters: values that belong together are one struct."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.source_tree import MODULES, SOURCE, found_in, nodes_of

MAX_PARAMETERS = 8


def test_a_function_of_the_shell_has_at_most_eight_parameters() -> None:
    def with_too_many(path: Path) -> list[str]:
        found = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        return [f"{node.lineno}: {node.name}" for node in found if parameter_count(node) > MAX_PARAMETERS]

    assert found_in([path for path in MODULES if SOURCE / "shell" in path.parents], with_too_many) == {}


def parameter_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])
