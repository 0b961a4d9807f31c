"""A folder of files, on this machine or in an object store, through Arrow's file systems.

The folder's address names an object store (`s3://bucket/lake`). Its credentials and endpoint come from the environment
of the driver and the tasks, under the names of Amazon's tools (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`,
...).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import fs

_IS_AWAY = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|INTERNAL_FAILURE|REQUEST_TIMEOUT)"
    r"|HTTP status 5\d\d"
)
_IS_REFUSED = re.compile(r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_SIGNATURE|SIGNATURE_DOES_NOT_MATCH)")


class Folder(msgspec.Struct, frozen=True):
    """`location`: an absolute path, or an address."""

    location: str

    @property
    def is_local(self) -> bool:
        return "://" not in self.location

    def inside(self, name: str) -> Folder:
        return Folder(f"{self.location}/{name}")

    def make(self) -> None:
        """Creates the folder and its parents on this machine. An object store needs none."""
        if self.is_local:
            os.makedirs(self.location, exist_ok=True)

    @contextmanager
    def new_file(self, name: str) -> Iterator[pa.NativeFile]:
        """A file to write, which is on disk, or in the store, when the block ends. It has its name before that, and
        keeps it if the block fails."""
        files, root = opened(self.location)
        with files.open_output_stream(f"{root}/{name}") as file:
            yield file
        self._flush(f"{root}/{name}")

    def open(self, name: str) -> pa.NativeFile:
        files, root = opened(self.location)
        return files.open_input_file(f"{root}/{name}")

    def move(self, name: str, to: Folder, new_name: str) -> None:
        """Moves the file atomically, replacing one of that name. Both folders must be in one store."""
        files, root = opened(self.location)
        files.move(f"{root}/{name}", f"{opened(to.location)[1]}/{new_name}")
        to.flush()

    def names(self, start: str = "") -> list[str]:
        """The names of files that begin with `start`."""
        files, root = opened(self.location)
        found = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
        return sorted(one.base_name for one in found if one.is_file and one.base_name.startswith(start))

    def remove(self, name: str) -> None:
        """Does nothing if the file is gone."""
        files, root = opened(self.location)
        try:
            files.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            pass

    def clear(self) -> None:
        """Deletes the folder and its contents."""
        if self.is_local:
            shutil.rmtree(self.location, ignore_errors=True)
            return
        files, root = opened(self.location)
        for one in files.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True)):
            if one.is_file:
                files.delete_file(one.path)

    def flush(self) -> None:
        """Makes the folder's names durable on disk; those in a store always are."""
        self._flush(self.location)

    def _flush(self, path: str) -> None:
        if self.is_local:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def local_folder(path: Path) -> Folder:
    return Folder(str(path.absolute()))


def is_away(error: Exception) -> bool:
    """Whether the store may answer the same request later."""
    return isinstance(error, OSError) and _IS_AWAY.search(str(error)) is not None


def said_by_store(error: Exception) -> str:
    """The error, in a sentence for people."""
    text = re.sub(r" \(Request ID: [^)]*\)|: No response body", "", str(error).partition("\n")[0]).rstrip(". ")
    names = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return f"{text} (who asks is told by {names})" if _IS_REFUSED.search(text) else text


def opened(location: str) -> tuple[fs.FileSystem, str]:
    """The file system, and the path of the folder or file in it."""
    if "://" not in location:
        return fs.LocalFileSystem(), location
    # only the bucket is parsed as an address, because names may have spaces and percent signs
    scheme, _, rest = location.partition("://")
    bucket, slash, path = rest.partition("/")
    files, root = _store(f"{scheme}://{bucket}")
    return files, f"{root}{slash}{path}"


@lru_cache(100)
def _store(address: str) -> tuple[fs.FileSystem, str]:
    files, root = fs.FileSystem.from_uri(address)
    return files, root
