"""docs/reference/bounds.md: each named constant has the value there."""

from __future__ import annotations

import re
from importlib import import_module

from tests.support.source_tree import ROOT

PAGE = ROOT / "docs" / "reference" / "bounds.md"
ROW = re.compile(r"^\| .+ \| ([0-9,]+)(?: (KiB|MiB|s))? \| .+ \| `([\w/]+)\.py` `(\w+)` \|$", re.MULTILINE)
UNITS = {"": 1, "s": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def test_the_page_of_bounds_says_what_the_code_says() -> None:
    text = PAGE.read_text("utf-8")
    rows = ROW.findall(text)
    assert len(rows) == len(re.findall(r"^\|", text, re.MULTILINE)) - 2, "a row has another form"
    told = {f"{path}.{name}": int(number.replace(",", "")) * UNITS[unit] for number, unit, path, name in rows}
    assert len(told) == len(rows), "a bound stands twice"
    real = {
        f"{path}.{name}": getattr(import_module(f"moldau.{path.replace('/', '.')}"), name) for _, _, path, name in rows
    }
    assert told == real
