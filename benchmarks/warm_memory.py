"""Holds free memory, for benchmarks on a virtual machine whose host takes freed memory back.

There the first use of a page costs three times as much as a later one, and a page that is unused for some seconds is
"first" again. Brokers write into fresh pages of the page cache all the time, so their rates are random. A process of
ours holds all free memory instead, and releases it as the brokers need it: every page was used before. A physical
machine, or a virtual one that keeps its memory, does not need this.
"""

from __future__ import annotations

import argparse
import mmap
import select
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType

CHUNK = 64 << 20
FREE = 512 << 20
"""Bytes that stay free for the use between two checks."""
LOOK_S = 0.02


class WarmMemory:
    """Holds the free memory of the machine in its own process, until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.warm_memory"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> WarmMemory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    def take(self) -> None:
        """Takes the memory that has become free. Call it between measurements: it takes seconds. Raises
        RuntimeError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("take", file=self._process.stdin, flush=True)
        if not self._process.stdout.readline():
            raise RuntimeError("the process that holds the free memory has ended")


def add_option(parser: argparse.ArgumentParser) -> None:
    text = "hold the free memory, so that brokers get pages that were used before (benchmarks/warm_memory.py)"
    parser.add_argument("--warm-memory", action="store_true", help=text)


def asked_for(arguments: argparse.Namespace) -> AbstractContextManager[WarmMemory | None]:
    """The effect of the option of that name."""
    return WarmMemory() if arguments.warm_memory else nullcontext()


def free_bytes() -> int:
    found = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemFree:"))
    return int(found.split()[1]) << 10


def hold() -> None:
    """Takes memory for each line of the input until it ends, and gives some back whenever little is free."""
    held: list[mmap.mmap] = []
    ones = b"\1" * CHUNK
    while True:
        for _ in range(free_bytes(), FREE, CHUNK):
            if held:
                held.pop().close()
        if not select.select([sys.stdin], [], [], LOOK_S)[0]:
            continue
        if not sys.stdin.readline():
            return
        while free_bytes() > FREE + CHUNK:
            held.append(mmap.mmap(-1, CHUNK))
            held[-1][:] = ones
        print("taken", flush=True)


if __name__ == "__main__":
    hold()
