"""Each package describes its purpose, and names every module and sub-package of its folder with its content."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.source_tree import MODULES, ROOT, SOURCE, found_in, tree_of

PACKAGES = [path for path in MODULES if path.name == "__init__.py"]
ROW = re.compile(r"^(\w+/?): \S", re.MULTILINE)
FILE = re.compile(r"`(\w+(?:/\w+)+(?:\.\w+)?)`")
"""A path in a document, as `core/log` or `core/log/log.py`."""


def contents(package: Path) -> list[str]:
    """The names of the modules, and those of the sub-packages with a slash."""
    folder = package.parent
    modules = [path.stem for path in folder.glob("*.py") if path != package]
    return sorted(modules + [f"{path.parent.name}/" for path in folder.glob("*/__init__.py")])


def test_a_package_names_what_it_holds() -> None:
    def wrong(package: Path) -> str:
        head, _, rows = (ast.get_docstring(tree_of(package)) or "").rpartition("\n\n")
        named = ROW.findall(rows)
        if not head:
            return "no docstring that says what belongs here, and below an empty line `name: what it holds`"
        if len(named) != len(rows.splitlines()) or len(set(named)) != len(named):
            return "the last paragraph has another line than `name: what it holds`, or a name twice"
        missing, gone = set(contents(package)) - set(named), set(named) - set(contents(package))
        return ", ".join([f"lacks {name}" for name in sorted(missing)] + [f"{name} is gone" for name in sorted(gone)])

    assert found_in(PACKAGES, wrong) == {}


def test_the_map_names_only_files_that_exist() -> None:
    for document in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        for path in FILE.findall((ROOT / document).read_text(encoding="utf-8")):
            assert (SOURCE / path).exists() or (ROOT / path).exists(), f"{document} names {path}"
