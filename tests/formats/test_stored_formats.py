"""What this version writes is what releases wrote, and what they wrote is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.formats.stored import Stored, every_format, read_golden

TABLE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "stored-formats.md"
FORMATS = every_format()


@pytest.mark.parametrize("stored", FORMATS, ids=[one.name for one in FORMATS])
def test_the_stored_bytes_of_a_format_never_change(stored: Stored) -> None:
    golden = read_golden()[stored.name]
    assert stored.read(golden) == stored.value
    assert stored.read(stored.written()) == stored.value
    if stored.is_exact:
        assert stored.written() == golden


def test_each_golden_value_has_a_format() -> None:
    assert read_golden().keys() == {one.name for one in FORMATS}


def test_the_table_of_stored_formats_names_each_format() -> None:
    rows = re.findall(r"^\| (.+?) \| .* \| golden \|$", TABLE.read_text("utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`|^([^`]+)$", row) for name in name if name}
    assert named == {one.name.partition(":")[0] for one in FORMATS}
