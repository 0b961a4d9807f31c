"""The whole demo, as a new user runs it: a broker, Spark, and a count that must be right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LINES = [b"2026-01-01 INFO started", b"WARN \xff\xfe not text", b"", b"plain", b"[error] x", b"INFO WARN both\r"]


@pytest.mark.slow
def test_every_line_of_a_file_comes_out_and_is_counted(tmp_path: Path):
    log = tmp_path / "some.log"
    log.write_bytes(b"\n".join(LINES * 500))
    command = [sys.executable, "-m", "moldau.cli.main", "demo", "--seconds", "10", "--file", str(log)]
    done = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("ok: 3,000 lines"), done.stdout
    assert "INFO 1,000, - 1,000, WARN 500, ERROR 500" in last
    assert (tmp_path / "demo-output" / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert done.stderr == ""
