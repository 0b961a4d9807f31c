"""The parts that every handler must have: versions, KIPs, authorization, throttle, metric."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from typing import Any

import pytest

from moldau.shell.administration import table as administration
from moldau.shell.broker.handlers.table import handler_specs
from moldau.shell.network import rights
from moldau.shell.network.dispatch import HandlerSpec
from moldau.shell.quorum.handlers.table import handler_specs as controller_specs
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey

SPECS = handler_specs()
HANDLERS = "moldau.shell.broker.handlers."
CONTROLLER_SPECS = {**controller_specs(), **administration.controller_specs()}
RIGHTS = {name for name, value in vars(rights).items() if isinstance(value, rights.Right)}


def handler_of(key: int) -> Any:
    spec = SPECS[key]
    return getattr(importlib.import_module(spec.module), spec.function)


def test_every_served_api_has_a_handler() -> None:
    assert sorted(SPECS) == sorted(int(key) for key in API_VERSIONS)


@pytest.mark.parametrize("key", sorted(SPECS))
def test_a_handler_opens_with_its_versions_and_kips(key: int) -> None:
    spec = SPECS[key]
    doc = inspect.getdoc(handler_of(key)) or ""
    versions = re.match(r"Versions (\d+)-(\d+)\. ", doc)
    assert versions, f"{spec.name}: the docstring does not open with its versions"
    assert [int(text) for text in versions.groups()] == [spec.min_version, spec.max_version]
    assert re.search(r"KIP-\d+", doc), f"{spec.name}: no KIP is named"
    assert re.search(r"[Ii]gnored on purpose", doc), f"{spec.name}: what is ignored is not said"


def declarations_of(module_name: str) -> dict[str, ast.AST]:
    """The functions, classes and constants of a module of handlers, and those that it imports from another one."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(inspect.getsource(importlib.import_module(module_name))).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
        elif isinstance(node, ast.ImportFrom) and re.search(r"\.(handlers|administration)\.", node.module or ""):
            found |= declarations_of(node.module or "")
    return found


def reachable_source(spec: HandlerSpec) -> str:
    """The handler and all handler declarations that it uses, directly or through others."""
    declarations = declarations_of(spec.module)
    waiting, reached = [spec.function, spec.function_for_many], dict[str, str]()
    while waiting:
        name = waiting.pop()
        if name in declarations and name not in reached:
            reached[name] = ast.unparse(declarations[name])
            waiting += [node.id for node in ast.walk(declarations[name]) if isinstance(node, ast.Name)]
    return "\n".join(reached.values())


@pytest.mark.parametrize(
    "spec", [*SPECS.values(), *CONTROLLER_SPECS.values()], ids=lambda spec: spec.module + spec.name
)
def test_a_handler_asks_for_the_rights_of_its_row(spec: HandlerSpec) -> None:
    asked = {getattr(rights, name) for name in re.findall(r"\w+", reachable_source(spec)) if name in RIGHTS}
    assert asked == set(spec.rights)


@pytest.mark.parametrize("key", sorted(SPECS))
def test_a_handler_throttles(key: int) -> None:
    """Except transaction markers, which Apache Kafka does not limit by quotas either."""
    assert ("context.throttle(" in reachable_source(SPECS[key])) == (key != int(ApiKey.WRITE_TXN_MARKERS))


@pytest.mark.asyncio
async def test_every_handler_has_a_metric(node: Any) -> None:
    assert sorted(node.node.dispatcher.request_counts()) == sorted(spec.name for spec in SPECS.values())


@pytest.mark.parametrize("key", sorted(SPECS))
def test_a_handler_is_one_coroutine_function_and_only_produce_and_fetch_are_raw(key: int) -> None:
    spec = SPECS[key]
    is_raw = key in (int(ApiKey.PRODUCE), int(ApiKey.FETCH))
    assert inspect.iscoroutinefunction(handler_of(key)) != is_raw, spec.name
    assert bool(spec.function_for_many) == is_raw
    if is_raw:
        assert inspect.iscoroutinefunction(getattr(importlib.import_module(spec.module), spec.function_for_many))
    else:
        # in its first step it runs in no task: it waits for the broker's offers, and for its pauses
        assert "asyncio" not in vars(importlib.import_module(spec.module)), spec.name
