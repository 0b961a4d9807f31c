"""What `moldau pipeline serve` finds in its directory, and what changed there since it looked last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.cli.served_pages.directory import PageDirectory
from moldau.products.pipelines.checkpoints.checkpoint import claim_checkpoint
from moldau.products.pipelines.page.page import load_page

PAGE = """\
name: {name}
bootstrap_servers: a:1
sources: {{orders: {{topic: orders, format: string}}}}
flows:
  all: {{sql_file: sql/all.sql}}
targets: {{all: {{path: "out/{name}"}}}}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    write(tmp_path / "sql" / "all.sql", "select value from orders")
    return tmp_path


_clock = iter(range(1, 1_000))


def write(file: Path, text: str) -> None:
    """With a time of its own: two writes may fall within one tick of the file system's clock."""
    file.write_text(text, "utf-8")
    second = 1_000_000_000 + next(_clock)
    os.utime(file, (second, second))


def told(pages: PageDirectory) -> list[tuple[str, str | None, str]]:
    """Of each finding the file, the name of the page that is to be run, and the end of a refusal."""
    found = pages.look()
    return [(one.file.name, one.page.name if one.page else None, (one.refusal or "")[-40:]) for one in found]


def test_a_page_is_found_once_and_again_when_it_means_something_else(directory: Path):
    write(directory / "b.yaml", PAGE.format(name="b"))
    write(directory / "a.yml", PAGE.format(name="a"))
    write(directory / "_shared.py", "what = 'no page'")
    write(directory / "notes.txt", "no page")
    pages = PageDirectory(directory, {})
    assert told(pages) == [("a.yml", "a", ""), ("b.yaml", "b", "")]
    assert told(pages) == []
    write(directory / "a.yml", PAGE.format(name="a") + "# a comment\n")
    assert told(pages) == []
    write(directory / "sql" / "all.sql", "select upper(value) as value from orders")
    assert told(pages) == [("a.yml", "a", ""), ("b.yaml", "b", "")]
    (directory / "b.yaml").unlink()
    assert told(pages) == [("b.yaml", None, "")]


def test_a_page_that_cannot_be_run_is_told_once_and_what_was_there_before_it_stays(directory: Path):
    page = directory / "a.yaml"
    write(page, PAGE.format(name="a"))
    pages = PageDirectory(directory, {})
    assert told(pages) == [("a.yaml", "a", "")]
    write(page, PAGE.format(name="a").replace("format: string", "format: strong"))
    ((file, name, why),) = told(pages)
    assert (file, name) == ("a.yaml", None)
    assert why.endswith("not `strong`; did you mean `string`?")
    assert told(pages) == []
    write(page, PAGE.format(name="a"))
    assert told(pages) == [], "it is the page that runs"
    write(page, PAGE.format(name="a").replace("sql/all.sql", "sql/none.sql"))
    assert told(pages)[0][1] is None
    write(directory / "sql" / "none.sql", "select 1 as one from orders")
    assert told(pages) == [("a.yaml", "a", "")], "a page that was refused is read at each look"


def test_two_pages_of_one_name_and_a_checkpoint_of_another_query_are_refused(directory: Path):
    write(directory / "a.yaml", PAGE.format(name="a"))
    write(directory / "b.yaml", PAGE.format(name="a"))
    pages = PageDirectory(directory, {})
    assert [finding[:2] for finding in told(pages)] == [("a.yaml", "a"), ("b.yaml", None)]
    (query,) = load_page(directory / "a.yaml").queries
    claim_checkpoint(query.checkpoint, query.step.facts(), pipeline="a")
    (query.checkpoint / "offsets").mkdir()
    (query.checkpoint / "offsets" / "0").touch()
    write(directory / "sql" / "all.sql", "select 2 as two from orders")
    assert told(pages)[0] == ("a.yaml", None, "begun: undo it, or `moldau pipeline reset`"[-40:])
