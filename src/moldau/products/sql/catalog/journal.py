"""Where the changes of the catalog are kept, and the form in which they are stored.

A record's key names an item, so that a compacted topic keeps the newest record of each: `query/CSAS_OUT_0`. Its value
is JSON; a record without a value removes the item. The changes that are read from all records, in their order, give the
catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import AnyItem, What
from moldau.products.sql.catalog.deciding import Change, NextNumber, Put, Remove, place_of

VERSION = 1
NUMBER_KEY = b"next_number"


class Journal(Protocol):
    """Keeps what statements change."""

    def append(self, changes: Sequence[Change]) -> None:
        """Keeps all changes of a statement, or none. They are durable when it returns. Raises MoldauError; then they
        may be kept or not, and the next `append` does not follow them blindly: the journal refuses it."""


class _NothingKept:
    def append(self, changes: Sequence[Change]) -> None:
        pass


NOTHING_KEPT: Journal = _NothingKept()


class StoredChangeError(MoldauError):
    """A stored change cannot be read; the message says why."""


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    item: AnyItem | None = None
    number: int | None = None


class _Version(msgspec.Struct, frozen=True):
    version: int


def stored_change(change: Change) -> tuple[bytes, bytes | None]:
    """The key and value of its record."""
    match change:
        case Put(item):
            return _key(*place_of(item)), _value(_Stored(VERSION, item=item))
        case Remove(what, key):
            return _key(what, key), None
        case NextNumber(number):
            return NUMBER_KEY, _value(_Stored(VERSION, number=number))


def read_change(key: bytes, value: bytes | None) -> Change:
    """The change of a record. Raises StoredChangeError for one of a later version, and for one that is damaged."""
    try:
        if value is None:
            what, slash, name = key.decode().partition("/")
            if not slash:
                raise ValueError("the key names no item")
            return Remove(What(what), name)
        version = msgspec.json.decode(value, type=_Version).version
        if version != VERSION:
            raise ValueError(f"it has version {version}, and this release of Moldau reads version {VERSION}")
        stored = msgspec.json.decode(value, type=_Stored)
        if key == NUMBER_KEY and stored.number is not None:
            return NextNumber(stored.number)
        if stored.item is None or key != _key(*place_of(stored.item)):
            raise ValueError("its value does not belong to its key")
        return Put(stored.item)
    except (ValueError, RecursionError) as error:  # msgspec's errors too
        raise StoredChangeError(f"the stored statement {_shown(key)} cannot be read: {error}") from error


def _key(what: What, key: str) -> bytes:
    return f"{what.value}/{key}".encode()


def _value(stored: _Stored) -> bytes:
    # sets in one order: the same change has the same bytes
    return msgspec.json.encode(stored, order="deterministic")


def _shown(key: bytes) -> str:
    return repr(key[:200].decode(errors="replace"))
