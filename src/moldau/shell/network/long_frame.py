"""A frame that is too long for the shared receive buffer: it has a buffer of its own, until it is whole and handled."""

from __future__ import annotations

from moldau.shell.network.bounds import RequestMemory

FIRST_FRAME_BYTES = 64 << 10
SPARE_BYTES = 1 << 20
MAX_SPARES = 4


def kept(frame: memoryview) -> memoryview:
    """The bytes of a frame that is read later: a copy, unless the frame has a buffer of its own that nobody takes."""
    return frame if len(frame) > SPARE_BYTES else memoryview(bytearray(frame))


class LongFrame:
    """The bytes of one frame, its length included, as far as they have come.

    The buffer grows at most fourfold of what came, so that to announce a size costs nothing. What it takes is counted
    in the request memory of all connections.
    """

    __slots__ = ("_spares", "buffer", "filled", "memory", "size")

    def __init__(self, memory: RequestMemory, spares: list[bytearray], begun: memoryview, size: int) -> None:
        """`spares`: buffers to be used again. `begun`: what came already. `size`: of the frame with its length."""
        self.memory = memory
        self._spares = spares
        self.size = size
        self.filled = len(begun)
        if spares and size <= SPARE_BYTES and memory.try_take(SPARE_BYTES):
            self.buffer = spares.pop()
        else:
            capacity = min(size, max(FIRST_FRAME_BYTES, self.filled * 4))
            if not memory.try_take(capacity):
                # what came is in memory anyway: keep it, and read no more until others give back
                capacity = self.filled
                memory.take(capacity)
            self.buffer = bytearray(capacity)
        self.buffer[: self.filled] = begun

    @property
    def is_whole(self) -> bool:
        """Whether all bytes of the frame have come."""
        return self.filled == self.size

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be read into the buffer as it is."""
        return self.filled == self.size or self.filled == len(self.buffer)

    def grow(self) -> bool:
        """Makes room for more; False where no memory is left for it now."""
        capacity = min(self.size, max(FIRST_FRAME_BYTES, len(self.buffer) * 4))
        if not self.memory.try_take(capacity - len(self.buffer), held_bytes=len(self.buffer)):
            return False
        grown = bytearray(capacity)
        grown[: self.filled] = self.buffer
        self.buffer = grown
        return True

    def drop(self) -> None:
        """Gives the memory back, without the buffer, which may still be read."""
        self.memory.give_back(len(self.buffer))

    def release(self) -> None:
        """Gives the memory back, and the buffer for the next long frame where it is one that fits most."""
        spares = self._spares
        if len(spares) < MAX_SPARES and SPARE_BYTES // 4 < len(self.buffer) <= SPARE_BYTES:
            spares.append(self.buffer if len(self.buffer) == SPARE_BYTES else bytearray(SPARE_BYTES))
        self.drop()
