"""The names of the counters of group coordinators. They count when the records are in the log."""

from __future__ import annotations

OFFSET_COMMITS = "moldau.group:type=GroupCoordinator,name=OffsetCommits"
OFFSET_EXPIRATIONS = "moldau.group:type=GroupCoordinator,name=OffsetExpirations"
"""Positions that were too old."""
OFFSET_DELETIONS = "moldau.group:type=GroupCoordinator,name=OffsetDeletions"
"""Positions that a request ended, or the end of their topic."""
REBALANCES = "moldau.group:type=GroupCoordinator,name=Rebalances"
"""Generations whose assignment stands in the log."""
