"""A pipeline's page: what it says, and with which line it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.products.pipelines import targets
from moldau.products.pipelines.page import describe, load_page, parse_page
from moldau.products.pipelines.section import PageError

PAGE = """\
name: minutes
bootstrap_servers: localhost:9092
source:
  topic: orders
  format: json
  schema: user string, amount double
  watermark: 10 seconds
sql: |
  select user from source;
sink:
  topic: out
  key: user
  mode: append
checkpoint: state/minutes
group: moldau.other
"""


def parse(text: str):
    return parse_page(text, file_name="page.yaml", directory=Path("/pages"))


def test_every_key_has_its_place():
    page = parse(PAGE)
    assert (page.name, page.source.topic, page.source.format, page.source.watermark) == (
        "minutes", "orders", "json", "10 seconds",
    )  # fmt: skip
    assert page.sql == "select user from source"
    assert (page.sink.topic, page.sink.key, page.sink.mode) == ("out", "user", "append")
    assert (page.checkpoint, page.group) == (Path("/pages/state/minutes"), "moldau.other")
    assert describe(page)["delivery"] == "exactly once: one transaction for each batch"
    page = parse(PAGE.replace("mode: append", "mode: append\n  delivery: at_least_once"))
    assert "at least once" in describe(page)["delivery"]


def test_what_may_be_left_out_has_a_default():
    page = parse(
        "name: n\nbootstrap_servers: a:1\nsource: {topic: t, format: string}\nsql: select 1\nsink: {path: out}"
    )
    assert (page.checkpoint, page.group) == (Path("/pages/checkpoints/n"), "moldau.n")
    assert (page.sink.path, page.sink.mode) == (Path("/pages/out"), "append")


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("name: minutes", "name: a b"), "page.yaml:1: `name`"),
        (("bootstrap_servers: localhost:9092\n", ""), "page.yaml:1: `bootstrap_servers` is missing"),
        (
            ("bootstrap_servers: localhost:9092", "bootstrap_servers:"),
            "page.yaml:2: `bootstrap_servers` must be a text",
        ),
        (("  topic: orders", "  topics: orders"), "page.yaml:4: `topics` is not known here"),
        (("  topic: orders", "  topic: a/b"), "page.yaml:4: `topic` is no name of a topic"),
        (("  format: json", "  format: avro"), "page.yaml:5: `format` must be one of json, string, binary"),
        (("  schema: user string, amount double\n", ""), "page.yaml:5: `format` json needs a `schema`"),
        (("  format: json", "  format: string"), "page.yaml:6: `schema` has no meaning"),
        (("10 seconds", "soon"), "page.yaml:7: `watermark` must be a time"),
        (("  key: user", "  path: x"), "page.yaml:11: `sink` needs either `path` or `topic`"),
        (
            ("  topic: out\n  key: user\n  mode: append", "  path: x\n  mode: update"),
            "`mode` update cannot go to files",
        ),
        (("  topic: out\n", "  path: x\n"), "`key` is for topics"),
        (("  topic: out\n  key: user\n", "  path: x\n  delivery: at_least_once\n"), "`delivery` is for topics"),
        (
            ("  mode: append", "  delivery: twice"),
            "page.yaml:13: `delivery` must be one of exactly_once",
        ),
        (("  mode: append", "  mode: complete"), "page.yaml:13: `mode` must be one of append, update"),
        (("state/minutes", "s3://bucket/x"), "page.yaml:14: `checkpoint` must be a path on this machine"),
        (("group: moldau.other", "group: a\ngroup: b"), "page.yaml:16: `group` is there twice"),
        (("group: moldau.other", "retries: 3"), "page.yaml:15: `retries` is not known here"),
        (("source:\n", "source: x\nother:\n"), "page.yaml:"),
        (("name: minutes", "name: [minutes"), "page.yaml:"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_line(change: tuple[str, str], refused: str):
    assert change[0] in PAGE
    with pytest.raises(PageError) as error:
        parse(PAGE.replace(*change))
    assert refused in str(error.value)


def test_a_new_target_is_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "shouted.py").write_text(
        "from moldau.products.pipelines.target import Target\n"
        "class Shouted(Target, frozen=True, kw_only=True):\n"
        "    NAMED_BY = 'shout'\n"
        "    KEYS = ('loudness',)\n"
        "    loudness: str\n"
        "    @classmethod\n"
        "    def parse(cls, sink, directory):\n"
        "        return cls(mode='append', loudness=sink.text('loudness'))\n"
    )
    monkeypatch.setattr(targets, "__path__", [*targets.__path__, str(tmp_path)])
    page = parse(PAGE.replace("  topic: out\n  key: user\n  mode: append", "  shout: out\n  loudness: high"))
    assert page.sink.loudness == "high"
    monkeypatch.undo()
    with pytest.raises(PageError, match="`shout` is not known here; known are path, topic, mode, key, delivery"):
        parse(PAGE.replace("  topic: out", "  shout: out"))


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b"])
def test_a_page_is_a_mapping(text: str):
    with pytest.raises(PageError, match=r"page\.yaml:1"):
        parse(text)


def test_an_absent_file_is_a_page_error(tmp_path: Path):
    with pytest.raises(PageError, match="cannot be read"):
        load_page(tmp_path / "none.yaml")
