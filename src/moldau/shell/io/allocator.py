"""Large buffers: what the C library does with the memory that a node frees, and buffers without zeros in them.

A request with a large batch and the answer that carries the batch to a follower take a buffer of a megabyte each, for a
moment. glibc returns such a buffer to the system and asks for it again with the next batch: 256 page faults for each
megabyte, which cost more than all copies of these bytes. So the process keeps some megabytes of what it has freed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial

KEPT_BYTES = 16 << 20
"""A process returns what is free at the end of its heap only beyond this."""
MAPPED_BYTES = 8 << 20
"""A buffer from this size on is mapped for itself, and returned at once."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc


def keep_freed_buffers() -> bool:
    """From now on, in this whole process. False, and nothing changes: the C library has no such setting, or this Python
    was built without libffi."""
    if sys.platform == "win32":
        return False
    try:
        import ctypes
    except ImportError:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))


def unfilled(size: int) -> bytearray:
    """A buffer that the caller overwrites as a whole, or drops: its bytes are not set. To set them to zero takes a
    tenth of the time of reading 1 MiB from the page cache. A call takes longer than `bytearray` for a small one."""
    return _maker()(size)


@cache
def _maker() -> Callable[[int], bytearray]:
    try:
        import ctypes

        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)
        make = prototype(("PyByteArray_FromStringAndSize", ctypes.pythonapi))
    except (ImportError, AttributeError):  # without libffi, or another Python than CPython
        return bytearray
    return partial(make, None)
