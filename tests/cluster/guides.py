"""The examples of README.md and docs/: each code block that names its language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:9092"
"""The broker address in the examples; a test replaces it by its own broker's."""
OTHER_ADDRESSES = ("127.0.0.1:9192", "127.0.0.1:9292")
"""The addresses of other clusters' brokers in the examples."""
REGISTRY = "http://127.0.0.1:8081"
"""The schema registry's address in the examples."""


class Block(NamedTuple):
    page: str
    number: int
    language: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.page}-{self.number}-{self.language}"

    @property
    def needs_spark(self) -> bool:
        return self.page.startswith(("docs/use/pipeline", "docs/reference/pipelines/")) or "moldau.spark" in self.text


def blocks() -> list[Block]:
    """In their order. A block without a language shows terminal output, and is not run."""
    docs = ROOT / "docs"
    pages = [
        ROOT / "README.md",
        *sorted((docs / "use").glob("*.md")),
        *sorted((docs / "reference" / "pipelines").glob("*.md")),
        docs / "reference" / "errors.md",
    ]
    return [
        Block(str(page.relative_to(ROOT)), number, language, text)
        for page in pages
        for number, (language, text) in enumerate(
            re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        )
    ]
