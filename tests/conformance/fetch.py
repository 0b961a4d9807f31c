"""Fetches and builds what the clients of other languages need, so that a later test run waits for no registry:
`python -m tests.conformance.fetch`."""

from __future__ import annotations

import os

from benchmarks.peers import CACHE, fetch_kafka
from tests.conformance.clients import FOREIGN_CLIENTS


def main() -> None:
    os.environ["MOLDAU_KAFKA_LIBS"] = str(fetch_kafka(CACHE))
    for name, kind in FOREIGN_CLIENTS.items():
        kind.command()
        print(f"{name} {kind.version()}")


if __name__ == "__main__":
    main()
