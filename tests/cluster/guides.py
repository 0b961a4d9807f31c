"""The examples of README.md and docs/: each block of code that names its language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:9092"
"""Where the examples expect a broker; a test puts its own broker's address there."""
OTHER_ADDRESSES = ("127.0.0.1:9192", "127.0.0.1:9292")
"""Where the examples expect brokers of other clusters."""
REGISTRY = "http://127.0.0.1:8081"
"""The same of a schema registry."""


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
    """In their order. A block without a language shows what a terminal prints, and runs nowhere."""
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
