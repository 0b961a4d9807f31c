"""docs/reference/pipelines/keys.md lists the keys that the parser reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from moldau.products.pipelines import core
from moldau.products.pipelines.core.keys import Interval, Key
from moldau.products.pipelines.formats import all_formats
from moldau.products.pipelines.sources import all_sources
from moldau.products.pipelines.spec.reference_page import keys_page
from moldau.products.pipelines.targets import all_targets

PIPELINES = Path(core.__file__).parents[1]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pipelines" / "keys.md"
READERS = {"text", "names", "number", "topic", "web_address", "interval_ms", "choice", "section", "local_path", "place"}
"""Methods of Section that read a key."""


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == keys_page()


def test_every_key_of_a_kind_is_declared_with_its_meaning() -> None:
    kinds = (*all_sources().values(), *all_targets().values(), *all_formats().values())
    keys = [key for kind in kinds for key in kind.KEYS]
    keys += [key for kind in all_sources().values() for key in kind.NAMED_BY]
    keys += [kind.NAMED_BY for kind in all_targets().values()]
    assert all(isinstance(key, Key) and key.meaning.endswith((".", ").")) for key in keys)


@pytest.mark.parametrize("path", sorted(PIPELINES.rglob("*.py")), ids=lambda path: path.stem)
def test_a_parser_reads_a_key_by_its_declaration(path: Path) -> None:
    """A literal in a parser would be a key that the reference lacks."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in READERS:
            read = call.args[0] if call.args else None
            assert not isinstance(read, ast.Constant), f"{path.name}:{call.lineno} reads `{ast.unparse(call)}`"


@pytest.mark.parametrize(("default_ms", "shown"), [(1, "1 millisecond"), (10_000, "10 seconds"), (86_400_000, "1 day")])
def test_a_time_is_shown_as_a_file_has_it(default_ms: int, shown: str) -> None:
    assert Interval("key", default_ms=default_ms).default_in_words() == f"`{shown}`"
