"""Detects an object that is replaced while a reader reads it.

A store gives an object's size and time in a listing, and its tag (`ETag`) only when the object is opened. So each time
a file is opened, its size and time are compared with those noted when it was found. When all of it has been read, its
tag is compared with the tag that the first open returned.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from moldau.errors import MoldauError

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.products.pipelines.checkpoints.found_files import FoundFile


class ObjectFilesError(MoldauError):
    """The files cannot be listed or read; the message says why."""


class ReplacedError(ObjectFilesError):
    """The name now refers to a different object than the one that was found."""


class _Form(NamedTuple):
    """None: the store does not give the value. `modified_s`: since 1970; the time of an opened object has no
    fraction."""

    size: int | None
    modified_s: int | None
    tag: bytes | None = None


class OneForm:
    """Checks that a file stays the same object from the listing that found it until it has been read."""

    def __init__(self, found: FoundFile) -> None:
        self._address = found.address
        self._found = _Form(found.size, found.modified_s)
        self._opened: _Form | None = None

    def check(self, stream: pa.NativeFile) -> None:
        """`stream`: the file, just opened. Raises ReplacedError."""
        form = _form_of(stream)
        if _differ(self._found[:2], form[:2]):
            raise self._replaced("after it was found")
        if self._opened is not None and _differ((self._opened.tag,), (form.tag,)):
            raise self._replaced("while it was read")
        self._opened = form

    def _replaced(self, when: str) -> ReplacedError:
        return ReplacedError(
            f"the file {self._address} was replaced {when}: move it to a name that is new, where it is found and read; "
            "under its old name it has no rows then"
        )


def _differ(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))


def _form_of(stream: pa.NativeFile) -> _Form:
    told = stream.metadata() or {}
    size, modified = told.get("Content-Length"), told.get("Last-Modified")
    return _Form(
        None if size is None else int(size),
        None if modified is None else int(datetime.fromisoformat(modified.decode()).timestamp()),
        told.get("ETag"),
    )
