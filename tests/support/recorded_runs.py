"""Finds the files that have changed since a suite's last complete run: a committed file has that run's commit."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
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


@dataclass(frozen=True)
class RecordedRun:
    """The last run of a suite that passed: `file` has its commit. `noticed`: the paths whose changes can make the suite
    fail; `ignored`: the parts of those that cannot."""

    file: Path
    noticed: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    root: Path = ROOT

    @property
    def commit(self) -> str:
        """ "" if none is recorded."""
        try:
            return str(json.loads(self.file.read_text())["commit"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def is_noticed(self, path: str) -> bool:
        """Whether a change of this file, one of `noticed`, can affect the suite."""
        return not path.startswith(self.ignored)

    def reason_to_run(self) -> str:
        """Why the suite must run again; "" if no relevant file has changed since the recorded run."""
        changed = changed_since(self.commit, *self.noticed, root=self.root)
        if changed is None:
            return "the recorded run is missing, or its commit is not in this history"
        noticed = sorted(filter(self.is_noticed, changed))
        return f"{len(noticed)} files changed since {self.commit[:8]}, such as {noticed[0]}" if noticed else ""

    def clean_commit(self) -> str:
        """The commit that a run would have; "" if files of `noticed` are not as committed."""
        return clean_commit(*self.noticed, *(f":(exclude){path}" for path in self.ignored), root=self.root)

    def record(self, commit: str) -> None:
        """After a run that passed. `commit`: the `clean_commit` before the run; nothing is recorded if that is not
        known, or has changed."""
        if commit and commit == self.clean_commit():
            self.file.write_text(json.dumps({"commit": commit}) + "\n")
