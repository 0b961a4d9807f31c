"""The names of the counters of group coordinators. They count when the records are in the log."""

from __future__ import annotations

OFFSET_COMMITS = "moldau.group:type=GroupCoordinator,name=OffsetCommits"
OFFSET_EXPIRATIONS = "moldau.group:type=GroupCoordinator,name=OffsetExpirations"
"""Committed offsets that expired."""
OFFSET_DELETIONS = "moldau.group:type=GroupCoordinator,name=OffsetDeletions"
"""Committed offsets that a request or the deletion of their topic removed."""
REBALANCES = "moldau.group:type=GroupCoordinator,name=Rebalances"
"""Generations whose assignments are in the log."""
