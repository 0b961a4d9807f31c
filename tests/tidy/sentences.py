"""Draws sentences at random from docs, docstrings and messages, for a review with a stranger's eyes.

`python -m tests.tidy.sentences --seed 1 --count 60` prints each with its file. Generated reference pages count through
their code.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.support.source_tree import MODULES, ROOT, nodes_of

_DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
_GENERATED = {"settings.md", "metrics.md", "errors.md", "command-line.md", "compatibility.md", "keys.md"}
_LEAST_WORDS = 5


def _sentences(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.!?])\s+|\n\n|\n(?=[-|#*]|\w+/?: )", text):
        plain = " ".join(sentence.split())
        if len(plain.split()) >= _LEAST_WORDS:
            yield plain


def of_documents() -> list[tuple[Path, str]]:
    """Without code blocks, and without decision records, which are history."""
    paths = [path for path in _DOCUMENTS if path.name not in _GENERATED and path.parent.name != "decisions"]
    texts = [(path, re.sub(r"(?ms)^```.*?^```$", "", path.read_text("utf-8"))) for path in paths]
    return [(path, sentence) for path, text in texts for sentence in _sentences(text)]


def of_docstrings() -> list[tuple[Path, str]]:
    """Of modules, classes and functions with a public name."""
    found = []
    for path in MODULES:
        for node in nodes_of(path):
            is_known = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if is_known and not getattr(node, "name", "").startswith("_"):
                found += [(path, sentence) for sentence in _sentences(ast.get_docstring(node) or "")]
    return found


def of_messages() -> list[tuple[Path, str]]:
    """The texts of raised errors, with `…` for filled-in values."""
    found = []
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                texts = [_written(argument) for argument in node.exc.args]
                found += [(path, sentence) for text in texts for sentence in _sentences(text)]
    return found


def _written(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    random = Random(arguments.seed)
    places = (of_documents(), of_docstrings(), of_messages())
    for number in range(arguments.count):
        path, sentence = random.choice(places[number % len(places)])
        print(f"{number + 1:3} {path.relative_to(ROOT)}: {sentence}")


if __name__ == "__main__":
    main()
