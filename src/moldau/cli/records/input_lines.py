"""Lines of standard input. A signal ends the reading, and loses no line that was read."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from moldau.cli.output import CommandError

_READ_BYTES = 64 * 1024
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """While entered, the first Ctrl-C, SIGTERM or SIGHUP is recorded, and ends a wait on `descriptor`; the second acts
    as usual. Python's exception could come between any two steps, for instance after reading a line and before writing
    it."""

    def __init__(self) -> None:
        self.received = 0
        """The number of the signal, 0 before one came."""
        self.descriptor = -1
        self._write_end = -1
        self._handlers: dict[signal.Signals, Any] = {}

    @property
    def name(self) -> str:
        return signal.Signals(self.received).name

    def __enter__(self) -> StopSignals:
        self.descriptor, self._write_end = os.pipe()
        for number in _SIGNALS:
            # an ignored signal stays ignored, for nohup
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        os.close(self.descriptor)
        os.close(self._write_end)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.received = number
        self._restore()
        os.write(self._write_end, b"!")

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}


class InputLines:
    """Lines without their ends: LF or CR LF, with `keeps_cr` only LF. The last line needs no end unless a signal ended
    the reading. `without_cr`: the number of lines that lost a CR."""

    def __init__(self, descriptor: int, signals: StopSignals, *, max_line_bytes: int, keeps_cr: bool = False) -> None:
        self._descriptor = descriptor
        self._signals = signals
        self._max_line_bytes = max_line_bytes
        self._keeps_cr = keeps_cr
        self.without_cr = 0
        self._held = bytearray()
        self._is_at_end = False

    @property
    def unfinished(self) -> int:
        """The number of bytes of a line whose end was not read."""
        return len(self._held)

    def begin(self, max_bytes: int) -> bool:
        """Waits for the first input and reads the bytes that are there, at most `max_bytes`; True if that is all
        input."""
        while not self._signals.received and len(self._held) < max_bytes and not self._is_at_end:
            if self._held and not self._can_be_read(0):
                return False
            if self._can_be_read(None):
                self._read_some()
        return self._is_at_end

    def read(self, idle_s: float, idle: Callable[[], bool]) -> Iterator[bytes]:
        """Yields each line. Calls `idle` from time to time while no line comes; its False ends the reading."""
        searched = 0
        while True:
            end = self._held.rfind(b"\n", searched)
            if end >= 0:
                whole = bytes(self._held[:end])
                del self._held[: end + 1]
                for line in whole.split(b"\n"):
                    yield self._whole(line)
            searched = len(self._held)
            if searched > self._max_line_bytes:
                raise CommandError(f"a line is longer than {self._max_line_bytes} bytes")
            if self._is_at_end or self._signals.received:
                break
            if self._can_be_read(idle_s):
                self._read_some()
            elif not idle():
                return
        if self._is_at_end and self._held:
            line = bytes(self._held)
            self._held.clear()
            yield self._whole(line)

    def _whole(self, line: bytes) -> bytes:
        if self._keeps_cr or not line.endswith(b"\r"):
            return line
        self.without_cr += 1
        return line[:-1]

    def _can_be_read(self, timeout_s: float | None) -> bool:
        ready, _, _ = select.select([self._descriptor, self._signals.descriptor], [], [], timeout_s)
        return self._descriptor in ready and not self._signals.received

    def _read_some(self) -> None:
        try:
            read = os.read(self._descriptor, _READ_BYTES)
        except OSError as error:
            raise CommandError(f"standard input cannot be read: {error.strerror}") from error
        self._held += read
        self._is_at_end = not read
