"""A pipeline writes one topic to every kind of target while drivers and executors are killed with -9. Every record must
be in each target once; in the mode update the rows must be right.

Without `--targets` the pipeline appends to a topic, a Delta table, an Iceberg table, a table of PostgreSQL and a
Parquet directory, and keeps sums in the mode update in Delta, Iceberg and PostgreSQL; other kinds of targets, such as
the history of each key, run if they are named. It runs on a standalone cluster with two executors. It dies at each of
four named points of a batch, 5 times at random, and 5 times by an executor's death. A kill hits the queries of all
targets: at a named point each of them waits for the others.

The appended targets and the sums in PostgreSQL took 36 minutes on two cores; each further target takes longer.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from moldau.products.pipelines.spec.spec import load_spec
from tests.exactly_once.pipeline_driver import POINTS
from tests.exactly_once.spark_campaign import (
    SOURCE,
    TARGET,
    campaign_arguments,
    end_cleanly_by_sigterm,
    run_campaign,
)
from tests.exactly_once.spark_driver import newest_commit
from tests.exactly_once.tables import KINDS, Place, faults, spec_of
from tests.support.postgresql import PostgresqlServer

APPENDED = ("topic", "delta", "iceberg", "postgresql", "files")
UPDATED = ("delta-sums", "iceberg-sums", "postgresql-sums")


class SpecOfTargets:
    points = POINTS

    def __init__(self, kinds: Sequence[str], server: PostgresqlServer, folder: Path) -> None:
        self.kinds, self.server, self.folder = kinds, server, folder
        self.queries = len(kinds)

    def begin(self, bootstrap_servers: str) -> None:
        self.place = Place(self.folder, self.server.url, bootstrap_servers, TARGET)
        self.file = self.folder / "spec.yaml"
        self.file.write_text(spec_of(self.kinds, SOURCE, self.place))
        self.checkpoints = [query.checkpoint for query in load_spec(self.file).queries]

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.exactly_once.pipeline_driver", str(self.file)]

    def noted(self) -> int:
        return min(map(newest_commit, self.checkpoints))

    def faults(self, records: int) -> list[str]:
        found = []
        for kind in self.kinds:
            wrong = faults([kind], self.place, records)
            print(f"{kind}: {'; '.join(wrong) or 'every row is right'}", flush=True)
            found += wrong
        return found


def main() -> int:
    arguments = campaign_arguments("tests.exactly_once.specs", str(__doc__), records=1_000_000, driver_kills=5)
    arguments.add_argument(
        "--targets", nargs="+", choices=KINDS, default=(*APPENDED, *UPDATED), metavar="KIND", help=", ".join(KINDS)
    )
    options = arguments.parse_args()
    end_cleanly_by_sigterm()
    server = PostgresqlServer()
    try:
        return run_campaign(options, functools.partial(SpecOfTargets, options.targets, server))
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
