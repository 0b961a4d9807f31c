"""Rules about the code that may wait, and its reasons."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.source_tree import MODULES, SOURCE, found_in, nodes_of

_HANDLERS = ("broker/handlers", "administration", "quorum/handlers")
HANDLERS = sorted(path for folder in _HANDLERS for path in (SOURCE / "shell" / folder).glob("*.py"))
PAUSES = "moldau.shell.network.pauses"
MAX_MODULES_WITH_PAUSES = 8
_PATIENT = ("logs/flusher.py", "cluster/controller_reports.py")
ONE_TURN_OF_PATIENCE = [SOURCE / "shell" / "broker" / name for name in _PATIENT]
"""They wait for the other requests of a read event, not for a pause."""


def imported_by(path: Path) -> set[str]:
    return {node.module or "" for node in nodes_of(path) if isinstance(node, ast.ImportFrom)}


def test_a_handler_has_two_waits() -> None:
    """`wait` and `pause` (`finish`: a pause after each step) of its context, and its own functions; methods of its node
    that a handler knows by a Protocol are not its own."""
    declared = {
        id(method)
        for path in HANDLERS
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
        for method in node.body
    }
    own = {
        node.name
        for path in HANDLERS
        for node in nodes_of(path)
        if isinstance(node, ast.AsyncFunctionDef) and id(node) not in declared
    }

    def is_known(call: ast.expr) -> bool:
        name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        owner, _, method = name.rpartition(".")
        if owner.rpartition(".")[2].lstrip("_") == "context":
            return method in ("wait", "pause", "finish")
        return method in own

    def other_waits(path: Path) -> list[str]:
        return [
            ast.unparse(node)
            for node in nodes_of(path)
            if isinstance(node, ast.AsyncWith | ast.AsyncFor)
            or (isinstance(node, ast.comprehension) and node.is_async)
            or (isinstance(node, ast.Await) and not is_known(node.value))
        ]

    assert found_in(HANDLERS, other_waits) == {}


def test_few_modules_know_how_pauses_work() -> None:
    assert not [path for path in HANDLERS if PAUSES in imported_by(path)]
    assert len([path for path in MODULES if PAUSES in imported_by(path)]) <= MAX_MODULES_WITH_PAUSES


def test_long_work_of_the_shell_shares_its_pauses() -> None:
    def own_pauses(path: Path) -> list[int]:
        return [
            node.lineno
            for node in nodes_of(path)
            if isinstance(node, ast.Await) and ast.unparse(node.value) == "asyncio.sleep(0)"
        ]

    shell = [path for path in MODULES if "shell" in path.parts and path not in ONE_TURN_OF_PATIENCE]
    assert found_in(shell, own_pauses) == {}
