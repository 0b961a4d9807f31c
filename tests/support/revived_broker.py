"""A broker that is killed and started again, at one address through all its lives."""

from __future__ import annotations

from pathlib import Path

from moldau.core.config.listeners import Endpoint
from moldau.testing.ports import HeldPorts
from tests.support.running_broker import RunningBroker


class RevivedBroker:
    """`moldau up` on a data directory. Its port is held: a connection of a parallel test cannot get it."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self._ports = HeldPorts()
        (listener,) = self._ports.choose((Endpoint("PLAINTEXT", "127.0.0.1", 0),))
        self._arguments = ["--data-dir", str(data), "--listen", f"127.0.0.1:{listener.port}", *arguments]
        self._process = self._start()

    def _start(self) -> RunningBroker:
        return RunningBroker(*self._arguments).wait_until_ready()

    @property
    def address(self) -> str:
        return self._process.address

    def kill(self) -> None:
        """kill -9, then the next life."""
        self._process.kill()
        self._process = self._start()

    def stop(self) -> int:
        """Ends it cleanly and frees the port; gives the exit code."""
        code = self._process.stop()
        self._ports.release()
        return code
