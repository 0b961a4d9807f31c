"""Checks the settings of log directories against each other."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from moldau.core.config.setting import invalid_config


def check_directories(directories: Sequence[str], metadata_directory: str | None, cordoned: Sequence[str]) -> None:
    """Checks `log.dirs`, `metadata.log.dir` and `cordoned.log.dirs`. Raises error 40."""
    if len(dict.fromkeys(directories)) != len(directories):
        raise invalid_config("log.dirs names a directory twice")
    first = next(iter(directories), None)
    if metadata_directory is not None and not _is_same_directory(metadata_directory, first):
        raise invalid_config(
            f"metadata.log.dir: the metadata log lies in the first of log.dirs here, which is {first}; name "
            f"{metadata_directory} first there"
        )
    unknown = [path for path in cordoned if path not in (*directories, "*")]
    if unknown:
        raise invalid_config(f"cordoned.log.dirs: {unknown[0]} is not in log.dirs")


def _is_same_directory(path: str, other: str | None) -> bool:
    return other is not None and posixpath.normpath(path) == posixpath.normpath(other)
