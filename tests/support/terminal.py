"""A program on a pseudo terminal: what a person types, and sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from types import TracebackType

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>()][A-Z0-9]?|\r")
WAIT_S = 15.0
CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"


class Terminal:
    """A context manager, which kills the program."""

    def __init__(self, command: list[str], environment: Mapping[str, str], *, lines: int = 30) -> None:
        self._keyboard, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 100, 0, 0))
        # a terminal that answers no questions about its cursor
        variables = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **environment}
        self._process = subprocess.Popen(
            command,
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env=variables,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(screen)
        self.output = ""
        """All of it, with the control sequences."""
        self._seen = 0
        """Characters without control sequences, up to what was waited for."""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._process.kill()
        self._process.wait(WAIT_S)
        os.close(self._keyboard)

    def type(self, text: str) -> None:
        """`\\n` in the text is the key Enter."""
        os.write(self._keyboard, text.replace("\n", "\r").encode())

    def wait_for(self, text: str, seconds: float = WAIT_S) -> str:
        """Waits until the text is shown after what was waited for before; returns what was shown until then, without
        control sequences."""
        end = time.monotonic() + seconds
        while True:
            shown = _CONTROL.sub("", self.output)[self._seen :]
            if text in shown:
                length = shown.index(text) + len(text)
                self._seen += length
                return shown[:length]
            left = end - time.monotonic()
            assert left > 0, f"{text!r} did not come; shown since: {shown[-3_000:]}"
            if select.select([self._keyboard], [], [], left)[0]:
                assert self._read(), f"the program ended before {text!r}: {shown[-3_000:]}"

    def exit_code(self, seconds: float = WAIT_S) -> int:
        """Waits until the program ends by itself."""
        end = time.monotonic() + seconds
        while self._process.poll() is None:
            left = end - time.monotonic()
            assert left > 0, f"it runs on: {self.output[-3_000:]}"
            # its end closes the terminal
            if select.select([self._keyboard], [], [], left)[0] and not self._read():
                return self._process.wait(max(0.1, end - time.monotonic()))
        return self._process.wait(1)

    def _read(self) -> bool:
        try:
            data = os.read(self._keyboard, 65_536)
        except OSError:  # the last process on the terminal has ended
            return False
        self.output += data.decode("utf-8", "replace")
        return bool(data)
