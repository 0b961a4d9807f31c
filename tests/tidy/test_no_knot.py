"""Rules about imports, and about the code that may change an object's attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.support.source_tree import MODULES, SOURCE, found_in, nodes_of


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports() -> dict[str, set[str]]:
    """Each module's imports of ours: also within functions, and for the type checker only."""
    paths = {name_of(path): path for path in MODULES}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        named: set[str] = set()
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                named |= {full if full in paths else str(node.module) for full in whole.values()}
        found[name] = named & paths.keys() - {name}
    return found


def test_no_files_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None


STATE_RECORDS = SOURCE / "core"
"""A machine's state is plain records, in separate modules from the decisions that change them."""
SIMULATED_WORLD = SOURCE / "simulation"
"""Its stories set the knobs of simulated ports, and keep ledgers of plain records."""
OF_A_LIBRARY = {
    "cli/access.py": "argparse",
    "cli/parser.py": "argparse",
    "cli/diagnosis/strangers.py": "ssl",
    "connect/converting/registry/protobuf.py": "protobuf",
    "connect/converting/registry/protobuf_schemas.py": "protobuf",
    "connect/converting/registry/protobuf_values.py": "protobuf",
    "products/service/serving.py": "uvicorn",
    "products/console/tail.py": "confluent-kafka",
    "products/pipelines/running/logs.py": "logging",
    "shell/node/log_format.py": "logging",
    "spark/session/worker_sources.py": "pyspark",
    "transport/service_tls.py": "ssl",
    "wire/web_tokens/judge.py": "joserfc",
    "transport/tls.py": "ssl",
}
OF_THE_HOT_PATH: dict[str, set[str]] = {
    "shell/broker/handlers/parked_fetch.py": {"fetched_bytes", "parked", "on_abandoned"},
    "shell/network/dispatch.py": {"client_id", "client_id_bytes", "count", "on_abandoned", "on_complete"},
    "shell/network/response_queue.py": {"may_produce_begin"},
    "shell/network/server_connection.py": {"filled"},
    "testing/injector.py": {"on_abandoned"},
}
"""Counts, a connection's data about its client, callbacks of a response: a call costs more than it would hide. The list
only shrinks."""


def set_in(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement sets or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    else:
        return
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
                yield part


def is_own(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "cls")


def declared_in(path: Path) -> set[str]:
    """The attributes of the classes of a module."""
    nodes = nodes_of(path)
    found = {part.attr for node in nodes for part in set_in(node) if is_own(part)}
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    lines = [line for each in classes for line in each.body if isinstance(line, ast.AnnAssign)]
    return found | {ast.unparse(line.target) for line in lines}


def test_an_object_is_changed_by_the_module_of_its_class() -> None:
    """Other code calls its methods: an attribute that is set from outside after construction has no owner."""

    def set_from_outside(path: Path) -> list[str]:
        name = str(path.relative_to(SOURCE))
        own = declared_in(path)
        found = [part for node in nodes_of(path) for part in set_in(node) if not is_own(part)]
        foreign = [part for part in found if part.attr not in own and not part.attr.startswith("__")]
        excused = OF_THE_HOT_PATH.get(name, set())
        assert excused <= {part.attr for part in foreign}, f"{name}: take out of the list what is not set any more"
        return [f"{part.lineno}: {ast.unparse(part)}" for part in foreign if part.attr not in excused]

    looked_at = [
        path
        for path in MODULES
        if not {STATE_RECORDS, SIMULATED_WORLD} & {*path.parents} and str(path.relative_to(SOURCE)) not in OF_A_LIBRARY
    ]
    assert found_in(looked_at, set_from_outside) == {}
