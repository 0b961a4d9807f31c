"""Basic types of every floor: ids, offsets and positions as distinct types, and pausing generators.

Naming rule: an *end* offset is exclusive, a *last* offset is inclusive.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Hashable, Iterable, Iterator
from typing import NewType, TypeVar

import msgspec

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)

Uuid = NewType("Uuid", bytes)
"""16 raw bytes, big-endian, as on the wire: raw bytes compare and hash faster than `uuid.UUID`."""

ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
"""The fixed topic id of `__cluster_metadata` (KIP-595)."""

NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)

Buffer = bytes | bytearray | memoryview

Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)
Pausing = Generator[None, None, Result]
"""Long work that yields behind every few microseconds, where it may be left for a while, and gives its result when it
ends. Nothing that others see is half done where it yields."""


def whole(work: Pausing[Result]) -> Result:
    """Runs `work` without pauses."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


def each_of(items: Iterable[Result]) -> Pausing[tuple[Result, ...]]:
    """A list of all `items`, with a pause after each."""
    found = []
    for item in items:
        found.append(item)
        yield
    return tuple(found)


def distinct(items: Iterable[Key]) -> Iterator[Key]:
    """Each item once, in order. Lazy, so that the caller may pause between two."""
    seen: dict[Key, None] = {}
    for item in items:
        if item not in seen:
            seen[item] = None
            yield item


def all_of(works: Iterable[Pausing[Result]]) -> Pausing[tuple[Result, ...]]:
    """Runs `works` one after the other and returns their results."""
    results = []
    for work in works:
        result = yield from work
        results.append(result)
    return tuple(results)


def counted(count: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that is most like `word` in lower case; None if none is near. `cutoff`: the least likeness; 1 is
    equal."""
    from difflib import get_close_matches  # only where somebody made a mistake

    by_lower = {one.lower(): one for one in known}
    found = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def hint(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`; did you mean X?` with the nearest known word, or nothing."""
    near = nearest(word, known, cutoff=cutoff)
    return "" if near is None else f"; did you mean {near}?"


def uuid_to_text(uuid: Uuid) -> str:
    """Kafka's text form of a uuid: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> Uuid:
    """The uuid with Kafka's text form. Raises ValueError for anything but 16 bytes of URL-safe base64."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not a uuid: {text!r}") from error
    if len(raw) != 16:
        raise ValueError(f"not a uuid: {text!r}")
    return Uuid(raw)


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """One partition of a topic. `str()` is the directory name, `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
"""The one partition of the metadata log; no client may create its topic."""
