"""Detects an object that is replaced by another one while a reader reads it.

A store tells an object's size and time in its list, and its tag (`ETag`) only when the object is opened. So a file is
compared with what was noted when it was found, by size and time, each time it is opened; and with what its first reader
opened, by its tag, when all of it has been read.
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
    """A name leads to another object than the one that was found."""


class _Form(NamedTuple):
    """What the store does not tell is None. `modified_s`: since 1970; the time of an opened object has no fraction."""

    size: int | None
    modified_s: int | None
    tag: bytes | None = None


class OneForm:
    """That a file has one form from the moment in which it was found until it has been read."""

    def __init__(self, found: FoundFile) -> None:
        self._address = found.address
        self._found = _Form(found.size, found.modified_s)
        self._opened: _Form | None = None

    def check(self, stream: pa.NativeFile) -> None:
        """`stream`: the file, opened now. Raises ReplacedError."""
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
