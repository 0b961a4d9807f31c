"""`python -m moldau`: the same as the command `moldau`, with this Python."""

import sys

from moldau.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
