"""One node of a cluster on this machine: `moldau up` in a process that ends with its parent.

The parent holds the other end of standard input, which closes when the parent ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from moldau.cli.main import main


def end_with_standard_input() -> None:
    """Waits until standard input is closed, then asks this process to stop."""
    while os.read(sys.stdin.fileno(), 1 << 10):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    sys.exit(main(["up", "--no-console", *sys.argv[1:]]))
