"""The process of one question: see `moldau.connect.plugins`."""

from __future__ import annotations

import sys

from moldau.connect.plugins.answering import answer
from moldau.connect.plugins.asked import answer_stdin

if __name__ == "__main__":
    sys.exit(answer_stdin(answer))
