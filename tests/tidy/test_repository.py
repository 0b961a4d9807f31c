"""Rules about the repository itself, to keep it readable."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from moldau.core.config.broker_settings import BROKER_SETTING_ROWS
from moldau.core.config.setting import HONOURED
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS
from moldau.errors import ERROR_CODES
from moldau.wire.protocol.api_keys import API_VERSIONS
from tests.conformance.clients import ALL_CLIENTS
from tests.conformance.compatibility import PAGE, page_with, report, tables
from tests.support.source_tree import MODULES, ROOT, SOURCE, found_in, nodes_of, tree_of

TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))

MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_PARAMETERS = 8
FEW_PARAMETERS = [SOURCE / folder for folder in ("client", "core", "errors", "shell", "transport", "wire")]
MAX_REPOSITORY_FILE_BYTES = 1_000_000
MAX_TEST_NAME_LENGTH = 80
MAX_GUIDE_WORDS = 2000
MAX_README_LINES = 120
MAX_EXAMPLE_WORDS = 400
MAX_ARCHITECTURE_LINES = 250
MAX_CHANGELOG_LINES_OF_AN_AREA = 60


def test_a_module_tells_one_story() -> None:
    def lines_too_many(path: Path) -> int:
        return max(0, path.read_text().count("\n") - MAX_MODULE_LINES)

    assert found_in(MODULES + TESTS + BENCHMARKS, lines_too_many) == {}


def test_a_function_fits_a_screen() -> None:
    def too_long(path: Path) -> list[str]:
        return [
            f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
            for node in nodes_of(path)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
        ]

    assert found_in(MODULES, too_long) == {}


def test_a_function_has_few_parameters() -> None:
    """Values that belong together are one frozen struct."""

    def too_many(path: Path) -> list[str]:
        functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        named = {each.name: [*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs] for each in functions}
        counts = {name: len([one for one in args if one.arg not in ("self", "cls")]) for name, args in named.items()}
        return [f"{name}: {count} parameters" for name, count in counts.items() if count > MAX_PARAMETERS]

    modules = [path for path in MODULES if not set(FEW_PARAMETERS).isdisjoint(path.parents)]
    assert found_in(modules, too_many) == {}


def test_a_test_name_is_short() -> None:
    def too_long(path: Path) -> list[str]:
        names = [node.name for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        return [name for name in names if name.startswith("test_") and len(name) > MAX_TEST_NAME_LENGTH]

    assert found_in(TESTS, too_long) == {}


def test_names_say_what_a_thing_is() -> None:
    def vague(path: Path) -> list[str]:
        classes = [node.name for node in nodes_of(path) if isinstance(node, ast.ClassDef)]
        said = [name for name in classes if re.search(r"(Manager|Helper|Util|Utils)$", name)]
        return said + [path.stem] * (path.stem in {"util", "utils", "common", "misc", "base", "helpers"})

    assert found_in(MODULES, vague) == {}


def test_a_module_says_what_it_is_for() -> None:
    def is_silent(path: Path) -> bool:
        return bool(path.read_text().strip()) and not ast.get_docstring(tree_of(path))

    assert found_in(MODULES, is_silent) == {}


def test_nothing_is_left_unfinished() -> None:
    def unfinished(path: Path) -> list[str]:
        return re.findall(r"\b(NotImplementedError|TODO|FIXME|XXX)\b", path.read_text())

    assert found_in(MODULES, unfinished) == {}


def test_error_codes_stand_in_one_table() -> None:
    """Other code looks a code up by Kafka's name, so that no number can be mistyped."""

    def numbers(path: Path) -> list[str]:
        return [
            f"{name} = {node.value.value}"
            for node in tree_of(path).body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for name in map(ast.unparse, node.targets)
            if name.lstrip("_") in ERROR_CODES
        ]

    assert found_in(MODULES, numbers) == {}, "use moldau.errors.ERROR_CODES"


def test_assert_is_not_used_because_it_can_be_switched_off() -> None:
    def asserts(path: Path) -> list[int]:
        return [node.lineno for node in nodes_of(path) if isinstance(node, ast.Assert)]

    assert found_in(MODULES, asserts) == {}, "use moldau.errors.invariant"


def is_on_the_virtual_loop(path: Path) -> bool:
    """Whether a module runs its coroutines only on the simulator's loop, where `asyncio.sleep` takes no time."""
    nodes = nodes_of(path)
    tests = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    asks_for_it = [any(argument.arg == "in_virtual_time" for argument in test.args.args) for test in tests]
    is_loop_imported = "moldau.simulation.loop" in {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    if not is_loop_imported and not (asks_for_it and all(asks_for_it)):
        return False
    real_loops = {"asyncio.run", "asyncio.Runner", "asyncio.new_event_loop", "pytest.mark.asyncio"}
    return not real_loops & {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}


WAITS_FOR_APACHE_KAFKA = ROOT / "tests/differential/brokers.py"
"""It answers a change before it applies it, and does not report when it does."""
TROUBLED = {ROOT / "tests" / name for name in ("torture", "chaos", "machines", "delivery")}
"""Programs with real processes rather than tests: they pause between two actions."""


def test_no_test_lets_real_time_pass() -> None:
    """`asyncio.sleep(0)` is a turn of the loop and takes no time; any other wait is for a condition, or on virtual
    time."""

    def sleeps(path: Path) -> list[int]:
        refused = {"time.sleep"} if is_on_the_virtual_loop(path) else {"time.sleep", "asyncio.sleep"}
        return [
            node.lineno
            for node in nodes_of(path)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "sleep"
            and ast.unparse(node.func) in refused
            and [ast.unparse(argument) for argument in node.args] != ["0"]
        ]

    asked = [path for path in TESTS if path != WAITS_FOR_APACHE_KAFKA and TROUBLED.isdisjoint(path.parents)]
    assert found_in(asked, sleeps) == {}


def test_a_test_module_imports_no_other() -> None:
    """Shared code is in tests/support, or in a neighbouring module without tests."""

    def imported_tests(path: Path) -> list[str]:
        modules = [node.module or "" for node in nodes_of(path) if isinstance(node, ast.ImportFrom)]
        return [module for module in modules if module.rpartition(".")[2].startswith("test_")]

    assert found_in(TESTS, imported_tests) == {}


OUTPUT_LINES = ("stdout.readline", "stderr.readline")


def test_no_test_waits_for_a_thread_or_process_without_a_bound() -> None:
    """pytest-timeout ends a hanging test anyway; a bound at the wait names the cause."""

    def unbounded(path: Path) -> list[int]:
        awaited = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Await)}
        return [
            node.lineno
            for node in nodes_of(path)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and (node.func.attr in ("join", "wait", "communicate") or ast.unparse(node.func).endswith(OUTPUT_LINES))
            and not node.args
            and not node.keywords
            and id(node) not in awaited
        ]

    assert found_in(TESTS, unbounded) == {}


def test_no_test_runs_a_program_without_a_bound() -> None:
    waiting = {f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")}

    def unbounded(path: Path) -> list[int]:
        return [
            node.lineno
            for node in nodes_of(path)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) in waiting
            and not {"timeout", None} & {keyword.arg for keyword in node.keywords}
        ]

    assert found_in(TESTS, unbounded) == {}


def test_no_test_waits_at_the_end_of_a_block_for_a_program() -> None:
    """`with Popen(...)` waits for its program even if the test has failed: `tests.support.talking_process.running` ends
    it."""

    def waiting(path: Path) -> list[int]:
        items = [item.context_expr for node in nodes_of(path) if isinstance(node, ast.With) for item in node.items]
        calls = [item.func for item in items if isinstance(item, ast.Call)]
        return [call.lineno for call in calls if ast.unparse(call) == "subprocess.Popen"]

    assert found_in(TESTS, waiting) == {}


def tracked_files() -> list[Path]:
    try:
        command = ["git", "ls-files"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return sorted(path for path in SOURCE.rglob("*") if path.is_file())
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def test_no_large_or_foreign_file_is_kept() -> None:
    for path in tracked_files():
        assert path.stat().st_size <= MAX_REPOSITORY_FILE_BYTES, path
        assert path.suffix not in {".jar", ".class", ".so", ".pyc", ".parquet", ".log"}, path


EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples/README.md", *EXAMPLES]


def test_the_documents_name_only_files_that_exist() -> None:
    for document in DOCUMENTS:
        text = document.read_text()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text) + re.findall(r'(?:src|href)="([^"#:]+)"', text):
            assert (document.parent / target).exists(), f"{document.name} points to {target}"


def test_the_documents_stay_short() -> None:
    """A guide is read in order and in one go; measurements, and every key of a file, are in docs/reference."""
    guides = [*(ROOT / "docs" / "use").glob("*.md"), *(ROOT / "docs" / "operate").glob("*.md")]
    words = {guide.name: len(guide.read_text().split()) for guide in guides}
    assert {name: count for name, count in words.items() if count > MAX_GUIDE_WORDS} == {}
    examples = {example.parent.name: len(example.read_text().split()) for example in EXAMPLES}
    assert {name: count for name, count in examples.items() if count > MAX_EXAMPLE_WORDS} == {}
    assert (ROOT / "README.md").read_text().count("\n") <= MAX_README_LINES
    assert (ROOT / "ARCHITECTURE.md").read_text().count("\n") <= MAX_ARCHITECTURE_LINES
    areas = (ROOT / "CHANGELOG.md").read_text().split("\n### ")
    assert [area.partition("\n")[0] for area in areas if area.count("\n") > MAX_CHANGELOG_LINES_OF_AN_AREA] == []


def test_the_examples_are_in_their_table() -> None:
    """With a picture each."""
    table = set(re.findall(r"\]\((\w+)\)", (ROOT / "examples/README.md").read_text()))
    assert table == {example.parent.name for example in EXAMPLES}
    for example in EXAMPLES:
        assert "(result.png)" in example.read_text(), example


def anchors_of(text: str) -> set[str]:
    """The names that a link can have after `#`: a heading in lower case, without punctuation, with dashes for
    blanks."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def test_links_between_documents_lead_to_headings() -> None:
    anchors = {document: anchors_of(document.read_text()) for document in DOCUMENTS}
    for document in DOCUMENTS:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
            found = (document.parent / target).resolve() if target else document
            assert anchor in anchors.get(found, {anchor}), f"{document.name} points to {target}#{anchor}"


def test_the_makefile_has_the_promised_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "bench", "fuzz", "ci", "lint"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_compatibility_page_lists_what_is_served() -> None:
    """Key, name and versions; of ApiVersions too, where older versions are only listed and close the connection."""
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


def test_every_client_is_green_on_both_brokers_and_on_three() -> None:
    for name in ("moldau", "moldau-three-brokers", "apache"):
        failed = [
            (client, feature)
            for client, row in report(name).items()
            for feature, is_green in row["features"].items()
            if not is_green
        ]
        assert failed == []
        assert len(report(name)) == len(ALL_CLIENTS)


def test_a_setting_that_is_honoured_is_read() -> None:
    """Other than in its row: by the typed field, by its name, or as the fallback of a topic setting."""
    text = "\n".join(path.read_text() for path in MODULES if not path.name.endswith("_setting_rows.py"))
    read = set(re.findall(r"\.(\w+)", text)) | set(re.findall(r'"([\w.]+)(?=")', text))
    read |= {name for row in TOPIC_SETTING_ROWS if row[5] == HONOURED for name in row[4]}
    honoured = [row[0] for row in (*BROKER_SETTING_ROWS, *TOPIC_SETTING_ROWS) if row[5] == HONOURED]
    assert [name for name in honoured if not {name, name.replace(".", "_")} & read] == []
