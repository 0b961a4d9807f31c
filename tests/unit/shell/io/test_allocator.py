"""Buffers of a megabyte that are allocated and freed: the requests to the system each time."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from moldau.shell.io.allocator import unfilled

PROGRAM = """
import resource, sys
from moldau.shell.io.allocator import keep_freed_buffers

assert keep_freed_buffers()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        held = [bytearray(1 << 20) for _ in range(8)]
        del held
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 20 * 8 * 256


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc"
)
def test_buffers_that_come_and_go_cost_no_page_faults() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert int(run.stdout.split()[-1]) < PAGES / 20


def test_a_python_that_cannot_call_the_c_library_runs_a_node_nevertheless() -> None:
    """A Python without libffi has no `_ctypes`."""
    program = "import sys; sys.modules['_ctypes'] = None; "
    program += "from moldau.shell.node.main import keep_freed_buffers; print(keep_freed_buffers())"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "False\n"


def test_an_unfilled_buffer_is_a_bytearray_of_the_size() -> None:
    for size in (0, 1, 1 << 20):
        buffer = unfilled(size)
        assert type(buffer) is bytearray
        assert len(buffer) == size
        buffer[:] = bytes(size)
        buffer += b"more"
        assert buffer == bytes(size) + b"more"


def test_without_the_c_library_an_unfilled_buffer_has_zeros() -> None:
    program = "import sys; sys.modules['_ctypes'] = None; "
    program += "from moldau.shell.io.allocator import unfilled; print(unfilled(3))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == f"{bytearray(3)}\n"
