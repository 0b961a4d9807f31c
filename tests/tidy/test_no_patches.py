"""No test replaces a part of our own code: it passes another bound as an argument, reaches the real one, or uses a port
(CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from tests.support.source_tree import ROOT, found_in, nodes_of

TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAY_STAY = {
    # Python's own list of folders of a package's modules: a reader's target is found there without an installation
    ("tests/products/test_pipeline_spec.py", "targets.__path__"),
    ("tests/spark/pipelines/test_guides.py", "targets.__path__"),
}


def is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("moldau", "tests", "benchmarks")


def foreign_names(path: Path) -> set[str]:
    """The module's imports that are not ours."""
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names if not is_ours(one.name)}
        elif isinstance(node, ast.ImportFrom) and not is_ours(node.module or ""):
            names |= {one.asname or one.name for one in node.names}
    return names


def replaced_parts(path: Path) -> list[str]:
    """Of our code, by `setattr(owner, "name", ...)` and `setattr("owner.name", ...)` of a pytest fixture. An owner that
    the module does not import, or defines itself, counts as ours."""
    parts = []
    for node in nodes_of(path):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"):
            continue
        first = node.args[0]
        if isinstance(first, ast.Constant):
            part = str(first.value)
            is_foreign = not is_ours(part)
        else:
            part = f"{ast.unparse(first)}.{ast.literal_eval(node.args[1])}"
            # `disk_module.os` is Python's `os` in one of our modules
            is_seen_through = isinstance(first, ast.Attribute) and first.attr in sys.stdlib_module_names
            is_foreign = is_seen_through or part.partition(".")[0] in foreign_names(path)
        if not is_foreign:
            parts.append(part)
    return parts


def test_no_test_replaces_a_part_of_our_code() -> None:
    def refused(path: Path) -> list[str]:
        name = str(path.relative_to(ROOT))
        return [part for part in replaced_parts(path) if (name, part) not in MAY_STAY]

    assert found_in(TESTS, refused) == {}


def test_no_test_uses_mocks() -> None:
    def mocks(path: Path) -> list[int]:
        imports = [node for node in nodes_of(path) if isinstance(node, ast.Import | ast.ImportFrom)]
        return [node.lineno for node in imports if re.search(r"\bmock\b", ast.unparse(node))]

    assert found_in(TESTS, mocks) == {}


def test_a_replacement_is_found_in_each_of_its_forms(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "import os\nfrom moldau.shell.io import disk as disk_module\nfrom pyiceberg.table import Table\n"
        "def test_a(patch, node):\n"
        '    patch.setattr("moldau.errors.A", 1)\n    patch.setattr(disk_module, "B", 1)\n'
        '    patch.setattr(disk_module.os, "open", 1)\n    patch.setattr(os, "open", 1)\n'
        '    patch.setattr("sys.stdin", 1)\n    patch.setattr(Table, "C", 1)\n    patch.setattr(node.part, "D", 1)\n'
    )
    assert replaced_parts(path) == ["moldau.errors.A", "disk_module.B", "node.part.D"]
