"""Whose folder a target's files lie in: a hidden file there names the pipeline. Readers of `*.parquet`, and of a Delta
table, pass it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.targets.target import Owner

if TYPE_CHECKING:
    from moldau.spark.folders import Folder

NOTE = ".moldau-owner"


def owner_of(location: str) -> Owner | None:
    """Raises OSError."""
    folder = _folder(location)
    try:
        with folder.open(NOTE) as file:
            pipeline = file.read().decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    return Owner(pipeline, f"delete {location}/{NOTE}")


def claim(location: str, pipeline: str) -> None:
    """Nothing where the folder has an owner. Makes the folder. Raises OSError."""
    if owner_of(location) is not None:
        return
    folder = _folder(location)
    folder.make()
    whole = f"{NOTE}-new"
    with folder.new_file(whole) as file:
        file.write(f"{pipeline}\n".encode())
    folder.move(whole, folder, NOTE)


def _folder(location: str) -> Folder:
    from moldau.spark.folders import Folder  # a page is checked without it

    return Folder(location)
