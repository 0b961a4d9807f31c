"""`python -m moldau` is the command `moldau`, with the given Python."""

from __future__ import annotations

import subprocess
import sys

from moldau import __version__


def test_the_package_runs_as_the_command_does() -> None:
    command = [sys.executable, "-m", "moldau", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"moldau {__version__}\n")
