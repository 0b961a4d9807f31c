"""A page writes one topic to every kind of target while drivers and executors are killed with -9: every record must be
in each target once, and in the mode update the right rows.

python -m tests.exactly_once.pages [--records 1000000] [--driver-kills 5] [--executor-kills 5] [--broker kafka]
[--seed N]

A kill hits the queries of all targets: at a named point each of them waits for the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

from moldau.products.pipelines.page.page import load_page
from tests.exactly_once.page_driver import POINTS
from tests.exactly_once.spark_campaign import SOURCE, TARGET, newest_commit, run_campaign
from tests.exactly_once.tables import Place, faults, page_of
from tests.support.postgresql import PostgresqlServer

KINDS = ("topic", "delta", "iceberg", "postgresql", "postgresql-sums", "files")


class PageOfTargets:
    points = POINTS

    def __init__(self, folder: Path, server: PostgresqlServer) -> None:
        self.folder, self.server = folder, server

    def begin(self, bootstrap_servers: str) -> None:
        self.place = Place(self.folder, self.server.url, bootstrap_servers, TARGET)
        self.file = self.folder / "page.yaml"
        self.file.write_text(page_of(KINDS, SOURCE, self.place))
        self.checkpoints = [query.checkpoint for query in load_page(self.file).queries]

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.exactly_once.page_driver", str(self.file)]

    def noted(self) -> int:
        return min(map(newest_commit, self.checkpoints))

    def faults(self, records: int) -> list[str]:
        return faults(KINDS, self.place, records)


def main() -> int:
    server = PostgresqlServer()
    try:
        return run_campaign(
            "tests.exactly_once.pages", lambda folder: PageOfTargets(folder, server), records=1_000_000, driver_kills=5
        )
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
