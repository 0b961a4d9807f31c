"""A frame that is too long for the shared receive buffer: it has a separate buffer until it is whole and handled."""

from __future__ import annotations

from moldau.shell.network.bounds import RequestMemory

FIRST_FRAME_BYTES = 64 << 10
SPARE_BYTES = 1 << 20
MAX_SPARES = 4


def kept(frame: memoryview) -> memoryview:
    """The bytes of a frame that is read later: a copy, unless the frame has a separate buffer that is not reused."""
    return frame if len(frame) > SPARE_BYTES else memoryview(bytearray(frame))


class LongFrame:
    """The received bytes of one frame, including its length.

    The buffer grows to at most four times the received bytes, so announcing a size costs nothing. Its memory counts in
    the request memory of all connections.
    """

    __slots__ = ("_spares", "buffer", "filled", "memory", "size")

    def __init__(self, memory: RequestMemory, spares: list[bytearray], begun: memoryview, size: int) -> None:
        """`spares`: buffers for reuse. `begun`: the bytes received so far. `size`: of the frame with its length."""
        self.memory = memory
        self._spares = spares
        self.size = size
        self.filled = len(begun)
        if spares and size <= SPARE_BYTES and memory.try_take(SPARE_BYTES):
            self.buffer = spares.pop()
        else:
            capacity = min(size, max(FIRST_FRAME_BYTES, self.filled * 4))
            if not memory.try_take(capacity):
                # received bytes are in memory anyway: keep them, and read no more until others free memory
                capacity = self.filled
                memory.take(capacity)
            self.buffer = bytearray(capacity)
        self.buffer[: self.filled] = begun

    @property
    def is_whole(self) -> bool:
        """Whether all bytes of the frame have arrived."""
        return self.filled == self.size

    @property
    def is_full(self) -> bool:
        """Whether the buffer has no room for more bytes."""
        return self.filled == self.size or self.filled == len(self.buffer)

    def grow(self) -> bool:
        """Makes room for more bytes; False if no memory is free now."""
        capacity = min(self.size, max(FIRST_FRAME_BYTES, len(self.buffer) * 4))
        if not self.memory.try_take(capacity - len(self.buffer), held_bytes=len(self.buffer)):
            return False
        grown = bytearray(capacity)
        grown[: self.filled] = self.buffer
        self.buffer = grown
        return True

    def drop(self) -> None:
        """Gives the memory back, but not the buffer, which may still be read."""
        self.memory.give_back(len(self.buffer))

    def release(self) -> None:
        """Gives the memory back, and the buffer for the next long frame if it has the usual size."""
        spares = self._spares
        if len(spares) < MAX_SPARES and SPARE_BYTES // 4 < len(self.buffer) <= SPARE_BYTES:
            spares.append(self.buffer if len(self.buffer) == SPARE_BYTES else bytearray(SPARE_BYTES))
        self.drop()
