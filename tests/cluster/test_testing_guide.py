"""Every Python example of docs/use/testing.md runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "use" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 9


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, tmp_path: Path) -> None:
    source = EXAMPLES[number]
    is_suite = "def test_" in source
    script = tmp_path / ("test_example.py" if is_suite else "example.py")
    script.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_suite else [sys.executable]
    result = subprocess.run(
        [*command, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, source + result.stdout + result.stderr
    if is_suite:
        assert re.search(r"\b[1-9]\d* passed", result.stdout), result.stdout
