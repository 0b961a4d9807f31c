"""Idioms that a stranger cannot read at once stay out of documents, heads of modules and help texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_tree import MODULES, ROOT, found_in, nodes_of, tree_of

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(path for folder in ("use", "operate", "reference") for path in sorted((ROOT / "docs" / folder).rglob("*.md"))),
]
"""Without docs/decisions, which are history."""
BETTER = {
    "anew": "again, or re- (rebuild, restart)",
    "twins?": "simulated implementation",
    "doors?": "port",
    "that which": "a noun",
    "whoever": "a noun: the client, the user, the node",
    "whichever": "any",
    "pipeline pages?": "pipeline file",
    "page file": "pipeline file",
    "pages? of (a |the )?pipelines?": "pipeline file",
    "(is|are) begun": "starts",
    "request is refused": "the request is rejected",
}
"""By pattern: a better wording."""
BETTER_OUTSIDE_OF_HEADS = {
    "beside": "next to, or compared with",
    "so that": "two sentences",
    "tells? of": "reports",
    "goes on with": "continues with",
    "those who": "a noun",
    "is not there": "does not exist, is missing",
}
"""As BETTER, but heads of modules still have these."""


def idioms_in(text: str, better: dict[str, str]) -> list[str]:
    return [
        f"{pattern!r}, better: {word}" for pattern, word in better.items() if re.search(rf"(?i)\b{pattern}\b", text)
    ]


def help_texts(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.keyword) and node.arg in ("help", "description"):
            yield ast.unparse(node.value)


def test_documents_use_plain_words() -> None:
    better = BETTER | BETTER_OUTSIDE_OF_HEADS
    assert found_in(DOCUMENTS, lambda path: idioms_in(path.read_text(encoding="utf-8"), better)) == {}


def test_heads_of_modules_use_plain_words() -> None:
    assert found_in(MODULES, lambda path: idioms_in(ast.get_docstring(tree_of(path)) or "", BETTER)) == {}


def test_help_texts_use_plain_words() -> None:
    better = BETTER | BETTER_OUTSIDE_OF_HEADS
    assert found_in(MODULES, lambda path: [row for text in help_texts(path) for row in idioms_in(text, better)]) == {}
