"""Marks the folder of a target with its pipeline's name, in the name of a hidden file.

The file is empty, so readers that read every file of a directory (Polars) also skip it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.targets.target import Owner, TargetError

if TYPE_CHECKING:
    from moldau.spark.frames.folders import Folder

NOTE = ".moldau-owner-"


def owner_of(location: str) -> Owner | None:
    """The first owner by name, if two claimed the folder at once. Raises TargetError."""
    try:
        names = _folder(location).names(NOTE)
    except OSError as error:
        raise TargetError(f"{location} cannot be read: {error.strerror or error}") from error
    return Owner(names[0].removeprefix(NOTE), f"delete {location}/{names[0]}") if names else None


def claim(location: str, pipeline: str) -> None:
    """Does nothing if the folder has an owner. Creates the folder. Raises TargetError."""
    if owner_of(location) is not None:
        return
    try:
        folder = _folder(location)
        folder.make()
        with folder.new_file(f"{NOTE}{pipeline}"):
            pass
    except OSError as error:
        raise cannot_be_made(location, error) from error


def cannot_be_made(location: str, error: OSError) -> TargetError:
    return TargetError(f"{location} cannot be made: {error.strerror or error}")


def _folder(location: str) -> Folder:
    from moldau.spark.frames.folders import Folder  # a pipeline file is checked without this import

    return Folder(location)
