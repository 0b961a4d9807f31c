"""How the descriptors of this process are shared out: so many for files, so many for connections, the rest kept back.

A file that cannot be opened because no descriptor is left looks like a failed disk, so connections must never take the
last one.
"""

from __future__ import annotations

import contextlib
import sys

import msgspec

KEPT_BACK = 128
"""For listening sockets, checkpoints being replaced, child processes, and connections about to be refused."""
UNLIMITED_MEANS = 1 << 20


class DescriptorShares(msgspec.Struct, frozen=True):
    """Both are bounds, neither is a promise of the system."""

    files: int
    connections: int


def raise_descriptor_limit() -> int:
    """Lets this process have as many descriptors as it may ask for itself; gives how many that is.

    Most systems begin with 1,024 and allow 500 times that without being asked for a reason.
    """
    if sys.platform == "win32":  # the C library's bound concerns its own file handles only
        return UNLIMITED_MEANS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNLIMITED_MEANS if hard == resource.RLIM_INFINITY else min(hard, UNLIMITED_MEANS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS refuses more than kern.maxfilesperproc whatever the hard limit says: then it stays as it is
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return UNLIMITED_MEANS if soft == resource.RLIM_INFINITY else soft


def share_out(limit: int, *, wanted_files: int) -> DescriptorShares:
    """Shares out `limit` descriptors: at most half of what is not kept back is for files, what is left for
    connections."""
    free = max(limit - KEPT_BACK, limit // 2)
    files = min(wanted_files, free // 2)
    return DescriptorShares(files, free - files)
