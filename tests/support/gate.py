"""A gate that a connector of a test stops at, in another process."""

from __future__ import annotations

import os
from pathlib import Path

from moldau.testing import Cluster

CONNECTORS = Path(__file__).parent / "connectors"
"""The folder of connectors that stop at gates."""


class Gate:
    """A named pipe: a task that reads it waits until the test writes."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self.path = folder / name
        os.mkfifo(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def wait_until_reached(self, cluster: Cluster) -> None:
        reached = Path(f"{self.path}.reached")
        cluster.wait_for(reached.exists, timeout=30)

    def open(self, cluster: Cluster) -> None:
        """Lets the task go on that waits, or comes to wait."""
        cluster.wait_for(self._try_to_open, timeout=30)

    def _try_to_open(self) -> bool:
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads the pipe: a thawed task comes back to it
            return False
        return True
