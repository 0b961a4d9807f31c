"""Finds the files that have changed since a suite's last complete run: a committed file has that run's commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """The output of the command; None if it fails or git is missing."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def changed_since(commit: str, *paths: str, root: Path = ROOT) -> frozenset[str] | None:
    """The files under `paths` that differ from `commit`, uncommitted ones too. None if the history lacks it."""
    if not commit or git("merge-base", "--is-ancestor", commit, "HEAD", root=root) is None:
        return None
    changed = git("diff", "--name-only", "--no-renames", commit, "--", *paths, root=root)
    untracked = git("ls-files", "--others", "--exclude-standard", "--", *paths, root=root)
    if changed is None or untracked is None:
        return None
    return frozenset([*changed.splitlines(), *untracked.splitlines()])


def clean_commit(*paths: str, root: Path = ROOT) -> str:
    """The commit of the working tree; "" if files under `paths` are not as committed, or git is missing."""
    changed = git("status", "--porcelain", "--", *paths, root=root)
    return "" if changed is None or changed else (git("rev-parse", "HEAD", root=root) or "").strip()
