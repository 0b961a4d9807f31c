"""Large buffers: makes the C library keep freed memory, and makes buffers without zeros.

A request with a large batch, and the answer that carries the batch to a follower, each take a megabyte buffer for a
moment. glibc returns such a buffer to the system and requests it again for the next batch: 256 page faults for each
megabyte, which cost more than all copies of these bytes. So the process keeps some megabytes of freed memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial

KEPT_BYTES = 16 << 20
"""The process only returns free memory at the end of its heap above this size."""
MAPPED_BYTES = 8 << 20
"""A buffer of at least this size gets a separate mapping, which is returned at once."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


def keep_freed_buffers() -> bool:
    """Acts from now on in the whole process. Returns False and changes nothing if the C library has no such setting, or
    if this Python was built without libffi."""
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
    """A buffer whose bytes are not set: the caller overwrites or drops all of it. Zeroing would take a tenth of the
    time of reading 1 MiB from the page cache. For a small buffer a call is slower than `bytearray`."""
    return _maker()(size)


@cache
def _maker() -> Callable[[int], bytearray]:
    try:
        import ctypes

        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)
        make = prototype(("PyByteArray_FromStringAndSize", ctypes.pythonapi))
    except (ImportError, AttributeError):  # without libffi, or on a Python other than CPython
        return bytearray
    return partial(make, None)
