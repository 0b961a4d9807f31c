"""Checks the right to write to a local place, without opening or changing anything."""

from __future__ import annotations

import os
from pathlib import Path

from moldau.products.pipelines.targets.target import TargetError

SQLITE_HEADER = b"SQLite format 3\0"


def check_folder(location: str) -> None:
    """Raises TargetError if files could not be written below `location`. Does not check object stores."""
    if "://" in location:
        return
    nearest = _nearest(Path(location))
    if not nearest.is_dir():
        what = "is" if nearest == Path(location) else f"cannot be made: {nearest} is"
        raise TargetError(f"{location} {what} not a directory")
    if not os.access(nearest, os.W_OK | os.X_OK):
        what = "cannot be written to" if nearest == Path(location) else f"cannot be made in {nearest}"
        raise TargetError(f"{location} {what}: permission denied")


def check_database(file: Path) -> None:
    """Raises TargetError if SQLite could not write to `file`, including its journal in the same directory."""
    check_folder(str(file.parent))
    if not file.exists():
        return
    if not file.is_file():
        raise TargetError(f"{file} is not a file")
    if not os.access(file, os.R_OK | os.W_OK):
        raise TargetError(f"{file} cannot be written to: permission denied")
    with file.open("rb") as opened:
        begin = opened.read(len(SQLITE_HEADER))
    if begin not in (b"", SQLITE_HEADER):
        raise TargetError(f"{file} is not an SQLite database")


def _nearest(path: Path) -> Path:
    """The path, or its nearest existing parent directory."""
    while not os.path.exists(path) and path != path.parent:
        path = path.parent
    return path
