"""Opens an Iceberg table: a warehouse, and a catalogue in an SQLite file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.keys import LocalPath, PathOrAddress, Text
from moldau.products.pipelines.core.section import Section

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

CATALOG_FILE = "catalog.db"
ICEBERG = Text("iceberg", "An Iceberg table, `namespace.table`.")
WAREHOUSE = PathOrAddress("warehouse", "The folder of the Iceberg tables.", default="warehouse")
CATALOG = LocalPath("catalog", "The SQLite file of the catalogue.", absent=f"`{CATALOG_FILE}` in the warehouse")
PLACE_KEYS = (WAREHOUSE, CATALOG)


def parse_table(section: Section, directory: Path) -> tuple[str, str, Path]:
    """The table, its warehouse and the file of its catalogue. Raises SpecError."""
    table = ICEBERG.of(section)
    if len(table.split(".")) < 2 or not all(table.split(".")):
        section.refuse(ICEBERG, f"must be `namespace.table`, not `{table}`")
    warehouse = WAREHOUSE.of(section, directory)
    if re.search("[#?]", warehouse):
        section.refuse(WAREHOUSE, f"must have no `#` and no `?`, where pyiceberg ends a path: {warehouse} has one")
    if "://" in warehouse and not section.has(CATALOG):
        section.refuse(WAREHOUSE, "is an object store, which holds no catalogue: name a file for it with `catalog`")
    return table, warehouse, section.local_path(CATALOG, directory, default=f"{warehouse}/{CATALOG_FILE}")


def open_catalog(warehouse: str, catalog: Path) -> SqlCatalog:
    """Creates the catalogue's file if it is missing."""
    from pyiceberg.catalog.sql import SqlCatalog  # a pipeline file is checked without this import

    uri = f"sqlite:///{catalog.absolute()}"
    if "://" not in warehouse:
        # pyiceberg does not decode the path of an address: with `%20` for a space, it would be another directory
        return SqlCatalog("moldau", uri=uri, warehouse=f"file://{Path(warehouse).absolute()}")
    return SqlCatalog("moldau", uri=uri, warehouse=warehouse, **store_properties())


def store_properties() -> dict[str, str]:
    """The object store's settings that pyiceberg needs: without them, Arrow asks Amazon for the region of a bucket.
    Arrow reads the other settings from the environment itself."""
    names = {"s3.endpoint": "AWS_ENDPOINT_URL", "s3.region": "AWS_REGION"}
    return {key: os.environ[name] for key, name in names.items() if name in os.environ}
