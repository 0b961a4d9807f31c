"""The process of one pipeline file in `moldau pipeline serve`: ends when its parent process ends.

The parent holds the other end of standard input.
"""

from __future__ import annotations

import sys
import threading

from moldau.cli.main import main
from moldau.cli.nodes.local_cluster.node import end_with_standard_input

if __name__ == "__main__":
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    sys.exit(main(["pipeline", "run", *sys.argv[1:]]))
