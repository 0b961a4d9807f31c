"""The memory of a task is that of its process and of those that it has started."""

from __future__ import annotations

import subprocess
import sys

from moldau.products.connect.running.memory import memory_bytes
from tests.support.talking_process import line_of, running

MIB = 1 << 20
HELD = "held = bytearray(%d); held[::4096] = b'x' * len(held[::4096]); print('held', flush=True); input()"
PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {HELD % (64 * MIB)!r}])"


def test_memory_of_a_process_and_its_child() -> None:
    with running([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert line_of(process.stdout) == "held\n"
        found = memory_bytes(process.pid)
        assert found is not None
        assert 64 * MIB < found < 200 * MIB


def test_memory_of_one_process_and_of_none() -> None:
    with running([sys.executable, "-c", HELD % MIB], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert line_of(process.stdout) == "held\n"
        assert 2 * MIB < (memory_bytes(process.pid) or 0) < 64 * MIB
    process.wait(60)
    assert memory_bytes(process.pid) is None
