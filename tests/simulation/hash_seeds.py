"""The same seeds of a simulator, under two hash seeds of Python."""

from __future__ import annotations

import os
import subprocess
import sys


def digests_of(module: str, *arguments: str) -> list[str]:
    """The command's output with `--digests`, under PYTHONHASHSEED 1 and 2."""
    return [
        subprocess.run(
            [sys.executable, "-m", module, *arguments, "--digests"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
