"""`make machines`: the tests on machines, or the reason why this host cannot make machines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.machines.network import why_not

RUN_S = 1_800

if __name__ == "__main__":
    reason = why_not()
    if reason is not None:
        print(f"no machines here: {reason}")
        sys.exit(0)
    tests = str(Path(__file__).parent)
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", "-v", tests], timeout=RUN_S).returncode)
