"""What the C library does with the memory that a node frees.

A request with a large batch and the answer that carries the batch to a follower take a buffer of a megabyte each, for a
moment. glibc returns such a buffer to the system and asks for it again with the next batch: 256 page faults for each
megabyte, which cost more than all copies of these bytes. So the process keeps some megabytes of what it has freed.
"""

from __future__ import annotations

import sys

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
