"""Shares the descriptors of this process between files and connections, and keeps the rest back.

A file that cannot be opened because no descriptor is left looks like a failed disk, so connections must never take the
last one.
"""

from __future__ import annotations

import contextlib
import sys

import msgspec

KEPT_BACK = 128
"""For listening sockets, checkpoint replacements, child processes, and connections that are refused next."""
UNLIMITED_MEANS = 1 << 20


class DescriptorShares(msgspec.Struct, frozen=True):
    """Both are upper bounds; the system may allow fewer."""

    files: int
    connections: int


def raise_descriptor_limit() -> int:
    """Raises the process's descriptor limit as far as it may; returns the new limit.

    Most systems start with 1,024 and allow 500 times that without privileges.
    """
    if sys.platform == "win32":  # the C library's bound applies to its own file handles only
        return UNLIMITED_MEANS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNLIMITED_MEANS if hard == resource.RLIM_INFINITY else min(hard, UNLIMITED_MEANS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS rejects more than kern.maxfilesperproc regardless of the hard limit: the limit then stays
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return UNLIMITED_MEANS if soft == resource.RLIM_INFINITY else soft


def share_out(limit: int, *, wanted_files: int) -> DescriptorShares:
    """Shares out `limit` descriptors: at most half of those not kept back is for files, the rest for connections."""
    free = max(limit - KEPT_BACK, limit // 2)
    files = min(wanted_files, free // 2)
    return DescriptorShares(files, free - files)
