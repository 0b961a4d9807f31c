"""Rules about the repository itself, so that it stays readable without anybody watching."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from moldau.core.config.broker_setting_rows import BROKER_SETTING_ROWS
from moldau.core.config.setting import HONOURED
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS
from moldau.errors import ERROR_CODES
from moldau.wire.protocol.api_keys import API_VERSIONS
from tests.conformance.clients import ALL_CLIENTS
from tests.conformance.compatibility import PAGE, page_with, report, tables

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "moldau"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))

MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_REPOSITORY_FILE_BYTES = 1_000_000


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES + TESTS + BENCHMARKS, ids=name_of)
def test_a_module_tells_one_story(path: Path) -> None:
    assert path.read_text().count("\n") <= MAX_MODULE_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_function_fits_a_screen(path: Path) -> None:
    too_long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not too_long


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_names_say_what_a_thing_is(path: Path) -> None:
    assert path.stem not in {"util", "utils", "common", "misc", "base", "helpers"}
    vague = [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and re.search(r"(Manager|Helper|Util|Utils)$", node.name)
    ]
    assert not vague


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_left_unfinished(path: Path) -> None:
    assert not re.search(r"\b(NotImplementedError|TODO|FIXME|XXX)\b", path.read_text())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_error_codes_stand_in_one_table(path: Path) -> None:
    """Elsewhere a code is looked up by Kafka's name for it, so that no number can be mistyped."""
    numbers = [
        f"{name} = {node.value.value}"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for name in map(ast.unparse, node.targets)
        if name.lstrip("_") in ERROR_CODES
    ]
    assert not numbers, "use moldau.errors.ERROR_CODES"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_assert_is_not_used_because_it_can_be_switched_off(path: Path) -> None:
    asserts = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
    assert not asserts, "use moldau.errors.invariant"


def is_on_the_virtual_loop(tree: ast.AST) -> bool:
    """Whether a module runs its coroutines on the simulator's loop only, where `asyncio.sleep` costs no time."""
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    real_loops = {"asyncio.run", "asyncio.Runner", "asyncio.new_event_loop", "pytest.mark.asyncio"}
    uses = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return "moldau.simulation.loop" in imported and not uses & real_loops


WAITS_FOR_APACHE_KAFKA = ROOT / "tests/differential/brokers.py"
"""It answers a change before it acts by it, and tells nobody when it does."""
TORTURE = ROOT / "tests" / "torture"
"""A program with real processes, no test: it pauses between two acts."""


@pytest.mark.parametrize(
    "path", [path for path in TESTS if path != WAITS_FOR_APACHE_KAFKA and TORTURE not in path.parents], ids=name_of
)
def test_no_test_lets_real_time_pass(path: Path) -> None:
    """`asyncio.sleep(0)` is a turn of the loop and no time; any other wait is for a condition, or on virtual time."""
    tree = ast.parse(path.read_text())
    refused = {"time.sleep"} if is_on_the_virtual_loop(tree) else {"time.sleep", "asyncio.sleep"}
    sleeps = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in refused
        and [ast.unparse(argument) for argument in node.args] != ["0"]
    ]
    assert not sleeps


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_no_test_waits_for_a_thread_or_process_without_a_bound(path: Path) -> None:
    """pytest-timeout ends what hangs all the same; a bound at the wait says what hung."""
    tree = ast.parse(path.read_text())
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    unbounded = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("join", "wait", "communicate")
        and not node.args
        and not node.keywords
        and id(node) not in awaited
    ]
    assert not unbounded


def tracked_files() -> list[Path]:
    try:
        listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return sorted(path for path in SOURCE.rglob("*") if path.is_file())
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def test_no_large_or_foreign_file_is_kept() -> None:
    for path in tracked_files():
        assert path.stat().st_size <= MAX_REPOSITORY_FILE_BYTES, path
        assert path.suffix not in {".jar", ".class", ".so", ".pyc", ".parquet", ".log"}, path


def test_the_documents_name_only_files_that_exist() -> None:
    for document in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        text = document.read_text()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text) + re.findall(r'(?:src|href)="([^"#:]+)"', text):
            assert (document.parent / target).exists(), f"{document.name} points to {target}"


def test_the_makefile_has_the_promised_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "bench", "fuzz", "ci", "lint"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_compatibility_page_lists_what_is_served() -> None:
    """Key, name and versions: of ApiVersions, where older ones are only listed and close the connection."""
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+)", page, re.MULTILINE)
    told = [(int(key), name.upper(), int(low), int(high)) for key, name, low, high in rows]
    served = [
        (int(key), key.name.replace("_", ""), row.advertised_min_version, row.max_version)
        for key, row in API_VERSIONS.items()
    ]
    assert told == served


def test_the_compatibility_page_shows_the_results_as_they_are() -> None:
    """After a new run: `python -m tests.conformance.compatibility`."""
    text = PAGE.read_text()
    assert page_with(text, tables()) == text


def test_every_client_is_green_on_both_brokers() -> None:
    for name in ("moldau", "apache"):
        failed = [
            (client, feature)
            for client, row in report(name).items()
            for feature, is_green in row["features"].items()
            if not is_green
        ]
        assert failed == []
        assert len(report(name)) == len(ALL_CLIENTS)


def test_a_setting_that_is_honoured_is_read() -> None:
    """Somewhere else than in its row: by the typed field, by its name, or as what a topic setting falls back to."""
    text = "\n".join(path.read_text() for path in MODULES if not path.name.endswith("_setting_rows.py"))
    fallbacks = {name for row in TOPIC_SETTING_ROWS if row[5] == HONOURED for name in row[4]}
    unread = []
    for row in (*BROKER_SETTING_ROWS, *TOPIC_SETTING_ROWS):
        name, served = row[0], row[5]
        field = name.replace(".", "_")
        is_read = name in fallbacks or re.search(rf"\.{field}\b|\"{field}\"|\"{re.escape(name)}\"", text)
        if served == HONOURED and not is_read:
            unread.append(name)
    assert not unread
