"""Flips one bit of one file while the machine is off, and starts a node on it.

The story itself runs without flips. The disks are copied at some of its stops and crashes, and each copy is tried after
the story. Either the node does not start, reports the reason, and starts when the bit is flipped back. Or it serves
each batch that is whole on the disk; or it answers CORRUPT_MESSAGE or KAFKA_STORAGE_ERROR and names the place in its
log; or it has cut the batch after a crash and logs that. No batch is removed from the disk. The same holds for the last
record of each key of a compacted topic and for the committed offsets of groups, whose readers may get
COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR.

Two kinds of flips are omitted because no start can detect them: those in a base offset of a compacted log, which may
have gaps and is not covered by the CRC, and those in files that a start does not read, such as deleted ones. Plausible
entries of a .timeindex or a .txnindex are flipped, but no reader searches by time here.
"""

from __future__ import annotations

import asyncio
import re
from random import Random
from typing import TYPE_CHECKING

import msgspec

from moldau.core.log.directories.directory import FUTURE_SUFFIX
from moldau.core.log.files.checkpoint import CLEAN_SHUTDOWN_MARK
from moldau.errors import ERROR_CODES, MoldauError, ProtocolError
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.damaged_machine import DamagedMachine
from moldau.simulation.flipped_reading import DAMAGED, RULE, Batch, CopyReader, Held, Tree, held_by
from moldau.simulation.kinds import directory_path, random_of
from moldau.simulation.violation import ViolationError
from moldau.wire.records.batch import is_crc_valid, iterate_batches

if TYPE_CHECKING:
    from moldau.simulation.client_world import SimulatedTopic
    from moldau.simulation.world import World

KIND = "flipped bits"
MAX_COPIES = 2
COPY_SHARE = 0.4
"""The share of stops and crashes of a story that are copied, up to MAX_COPIES."""
FLIPS = 3
"""The number of flips for each copy. Each is applied to the original bytes."""
LIFE_S = 8.0
"""The time that a node runs with the damage, long enough for retention, cleaning and file deletion."""
META_PROPERTIES = "meta.properties"
METADATA_DIRECTORY = "__cluster_metadata-0"
COMPACTED = ("compacted-", "__consumer_offsets-")
BASE_OFFSET_BYTES = 8
UNSEEN = (".lock",)
LEFT_OVER = re.compile(r"-delete/|-stray/|\.cut-|\.tmp$|\.damaged|\.deleted$|\.cleaned$")
DERIVED = re.compile(
    r"\.(index|timeindex|snapshot|txnindex|part|cleaned|tmp)$|quorum-state|epoch-checkpoint|flushed-off"
)
"""Files that a start rebuilds from the log, even if it fails afterwards."""
REFUSED = (*DAMAGED, ERROR_CODES["COORDINATOR_NOT_AVAILABLE"], ERROR_CODES["NOT_COORDINATOR"])


class Flip(msgspec.Struct, frozen=True):
    """Bit `bit` of the byte at `position` of a file in the log directory `place`."""

    place: int
    path: str
    position: int
    bit: int

    def of(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[self.position] ^= 1 << self.bit
        return bytes(changed)


class Copy(msgspec.Struct, frozen=True):
    """The log directories after a stop or a crash."""

    trees: list[Tree]
    is_power_lost: bool


class FlippedBits:
    """The flips of one story."""

    def __init__(self, world: World, topics: list[SimulatedTopic]) -> None:
        self.world = world
        self.topics = topics
        self.random = random_of(world.seed, KIND)
        self.copies: list[Copy] = []

    def process_ended(self, is_power_lost: bool) -> None:
        """Called with the disks after a stop or a crash."""
        if len(self.copies) < MAX_COPIES and self.topics and self.random.random() < COPY_SHARE:
            self.copies.append(Copy([tree_of(disk) for disk in self.world.broker.disks], is_power_lost))

    async def run(self) -> None:
        """Tries all copies. Raises ViolationError."""
        for copy in self.copies:
            held = held_by(copy.trees, self.topics)
            for _ in range(FLIPS):
                flip = draw_flip(copy.trees, self.random)
                self.world.trace.tell(f"bit {flip.bit} of byte {flip.position} of {flip.path} is flipped")
                await FlippedStart(self.world, self.topics, copy, held, flip).run()


class FlippedStart:
    """The start of one node on one copy with one flip."""

    def __init__(self, world: World, topics: list[SimulatedTopic], copy: Copy, held: Held, flip: Flip) -> None:
        self.world = world
        self.copy = copy
        self.flip = flip
        self.expiring = [topic.name for topic in topics if topic.ledger(world, 0).rules.may_expire]
        self.is_clean = any(CLEAN_SHUTDOWN_MARK in tree for tree in copy.trees)
        self.flipped = [dict(tree) for tree in copy.trees]
        self.flipped[flip.place][flip.path] = flip.of(self.flipped[flip.place][flip.path])
        self.held = held.without(self.is_hit)
        self.machine = DamagedMachine(world.broker, [disk_of(tree) for tree in self.flipped])

    def is_hit(self, batch: Batch) -> bool:
        is_inside = batch.position <= self.flip.position < batch.position + len(batch.data)
        return batch.path == self.flip.path and is_inside

    async def run(self) -> None:
        refusal = await self.machine.start()
        if refusal is not None:
            self.check_refusal(refusal)
            await self.flip_back()
            return
        hidden = await self.hidden()
        self.check_reported(hidden)
        await asyncio.sleep(LIFE_S)
        await self.machine.end()
        self.check_bytes()
        if await self.machine.start() is not None:
            raise self.violation("the second start is refused")
        again = await self.hidden()
        if len(again) > len(hidden):
            batch, code = again[0]
            told = list(self.machine.log.lines)
            raise self.violation(f"a second start hides {batch.directory} {batch.base_offset}: {code}; {told}")
        self.machine.kill("process", is_told=False)

    def violation(self, detail: str) -> ViolationError:
        return ViolationError(RULE, f"{self.flip}: {detail}")

    # -- a start that is refused

    def check_refusal(self, error: BaseException) -> None:
        """The error must be one sentence that names the file or its directory, and no record may have changed."""
        sentence = str(error)
        directory, _, name = self.flip.path.rpartition("/")
        if not isinstance(error, MoldauError) or "\n" in sentence:
            raise self.violation(f"the start fails: {error!r}")
        names = [name, directory]
        if name == META_PROPERTIES:  # the ids of two directories differ: either may be wrong
            names += [directory_path(place) for place in range(len(self.copy.trees))]
        if not any(place and place in sentence for place in names):
            raise self.violation(f"the refusal names another place: {sentence}")
        deleted = [line for line in self.machine.log.lines if "belongs to a deleted topic and is removed" in line]
        for place, disk in enumerate(self.machine.disks):
            after = tree_of(disk)
            # a start completes swaps that a crash interrupted: cleaned segments replace others there
            swapped = {directory_of(path) for path in self.flipped[place] if path.endswith(".swap")}
            for path, data in self.flipped[place].items():
                if ".log" not in path or LEFT_OVER.search(path) or DERIVED.search(path):
                    continue
                # a start removes the replica of an unfinished move; the original still exists
                if directory_of(path) in swapped or directory_of(path).endswith(FUTURE_SUFFIX):
                    continue
                if any(f"{directory_path(place)}/{directory_of(path)} " in line for line in deleted):
                    continue
                # a tail of zeros is a page lost in a crash: recovery cuts such a tail and keeps no copy of it
                records = data[: end_of_records(self.copy.trees[place][path])]
                now = after.get(path, b"")
                kept = [cut for name, cut in after.items() if name.startswith(f"{path}.cut-")]
                if path not in after:
                    # the file of a deleted topic has another name until its deletion
                    directory, _, file = path.rpartition("/")
                    waiting = (name for name in after if name.startswith(f"{directory}."))
                    now = next((after[name] for name in waiting if name.endswith(f"-delete/{file}")), b"")
                # a log cut below its start also loses the rest of the file: the later piece was first in the log
                pieces = (b"", *kept, b"".join(reversed(kept)))
                if not any((now + piece).startswith(records) for piece in pieces):
                    raise self.violation(f"a refused start changed {path}")

    async def flip_back(self) -> None:
        """The node then starts and serves everything."""
        disk = self.machine.disks[self.flip.place]
        data = disk.read_file(self.flip.path) if disk.exists(self.flip.path) else b""
        wrong = self.flipped[self.flip.place][self.flip.path]
        if data[: self.flip.position + 1] == wrong[: self.flip.position + 1]:  # otherwise the file was rebuilt
            disk.replace_file(self.flip.path, self.flip.of(data))
        refusal = await self.machine.start()
        if refusal is not None:
            raise self.violation(f"flipped back, and still refused: {refusal!r}")
        hidden = await self.hidden()
        if hidden:
            batch, code = hidden[0]
            raise self.violation(f"flipped back, {batch.directory} {batch.base_offset} is not served: {code}")
        self.machine.kill("process", is_told=False)

    # -- a start that serves

    async def hidden(self) -> list[tuple[Batch, int]]:
        """Batches that are whole but not served to a client, or hold a record that is not served, with their error
        codes."""
        reader = CopyReader(self.machine)
        return [
            (batch, code)
            for batch, code in await reader.read(self.held)
            if not (batch.topic in self.expiring and reader.is_below_start(batch, code))
        ]

    def check_reported(self, hidden: list[tuple[Batch, int]]) -> None:
        for batch, code in hidden:
            lines = [line for line in self.machine.log.lines if batch.directory in line or self.flip.path in line]
            is_cut = not self.is_clean and any(" cut " in line for line in lines)
            # only a loss of power removes the record of the offset up to which the metadata log was flushed
            is_stray = self.copy.is_power_lost and any("stray" in line for line in lines)
            is_stray = is_stray and self.flip.path.startswith(METADATA_DIRECTORY)
            if not (lines and code in REFUSED) and not is_cut and not is_stray:
                raise self.violation(f"{batch.directory} {batch.base_offset} is not served: {code}; {lines}")

    def check_bytes(self) -> None:
        """Every whole batch must still be somewhere on the disk."""
        trees = [tree_of(disk) for disk in self.machine.disks]
        moved = [
            batch for batch in self.held.batches if batch.topic not in self.expiring and not batch.is_in_place(trees)
        ]
        if not moved:
            return
        everything = b"\0".join(data for tree in trees for data in tree.values())
        for batch in moved:
            if batch.data not in everything:
                raise self.violation(f"{batch.directory} {batch.base_offset} is gone from the disk")


# -- what lies on a disk


def tree_of(disk: MemoryDisk, path: str = "") -> Tree:
    """Every file under `path`, by its path. An empty directory has its path with a slash."""
    found: Tree = {}
    for name in disk.list_directory(path):
        child = f"{path}/{name}" if path else name
        if disk.is_directory(child):
            found.update(tree_of(disk, child) or {child + "/": b""})
        else:
            found[child] = disk.read_file(child)
    return found


def disk_of(tree: Tree) -> MemoryDisk:
    """A disk with the files of `tree`, all durable."""
    disk = MemoryDisk()
    for path, data in tree.items():
        directory, _, name = path.rpartition("/")
        if directory:
            disk.make_directory(directory)
        if name:
            disk.replace_file(path, data)
    return disk


def directory_of(path: str) -> str:
    return path.rpartition("/")[0]


def end_of_records(data: bytes) -> int:
    """The begin of the tail of zeros in a segment: after a batch that itself ends with zeros, if it is whole."""
    end = len(data.rstrip(b"\0"))
    try:
        for at, header in iterate_batches(data):
            if at < end <= at + header.size and is_crc_valid(data, at, header.size):
                return at + header.size
    except ProtocolError:
        return end
    return end


def draw_flip(copy: list[Tree], random: Random) -> Flip:
    """Draws a flip. Each kind of file has the same chance, independent of the number of files."""
    kinds: dict[str, list[tuple[int, str]]] = {}
    for place, tree in enumerate(copy):
        for path, data in tree.items():
            if data and path not in UNSEEN and not LEFT_OVER.search(path):
                kinds.setdefault(re.sub(r"\d+", "", path), []).append((place, path))
    place, path = random.choice(kinds[random.choice(sorted(kinds))])
    position = random.randrange(len(copy[place][path]))
    if path.startswith(COMPACTED) and ".log" in path:
        position = _behind_base_offset(copy[place][path], position)
    return Flip(place, path, position, random.randrange(8))


def _behind_base_offset(data: bytes, position: int) -> int:
    try:
        for at, _ in iterate_batches(data):
            if at <= position < at + BASE_OFFSET_BYTES:
                return at + BASE_OFFSET_BYTES
    except ProtocolError:
        return position
    return position
