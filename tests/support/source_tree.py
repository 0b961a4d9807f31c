"""The source of the project as files and syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SOURCE = ROOT / "src" / "moldau"

MODULES = sorted(SOURCE.rglob("*.py"))

Check = Callable[[Path], object]


def found_in(paths: Iterable[Path], what_is_wrong: Check) -> dict[str, object]:
    """The errors in each file, by its name. A rule is one test: one test for each file costs several times more."""
    found = {str(path.relative_to(ROOT)): what_is_wrong(path) for path in paths}
    return {name: wrong for name, wrong in found.items() if wrong}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))
