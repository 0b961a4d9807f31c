"""Where an Iceberg table is found: a warehouse, and a catalogue in an SQLite file, as source and target name them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.section import Section

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

CATALOG_FILE = "catalog.db"
PLACE_KEYS = ("warehouse", "catalog")


def parse_table(section: Section, directory: Path) -> tuple[str, str, Path]:
    """The table, its warehouse and the file of its catalogue. Raises SpecError."""
    table = section.text("iceberg")
    if len(table.split(".")) < 2 or not all(table.split(".")):
        section.refuse("iceberg", f"must be `namespace.table`, not `{table}`")
    warehouse = section.place("warehouse", directory, default="warehouse")
    if re.search("[#?]", warehouse):
        section.refuse("warehouse", f"must have no `#` and no `?`, where pyiceberg ends a path: {warehouse} has one")
    if "://" in warehouse and not section.has("catalog"):
        section.refuse("warehouse", "is an object store, which holds no catalogue: name a file for it with `catalog`")
    return table, warehouse, section.local_path("catalog", directory, default=f"{warehouse}/{CATALOG_FILE}")


def open_catalog(warehouse: str, catalog: Path) -> SqlCatalog:
    """Makes the file of the catalogue where it is missing."""
    from pyiceberg.catalog.sql import SqlCatalog  # a page is checked without it

    uri = f"sqlite:///{catalog.absolute()}"
    if "://" not in warehouse:
        # pyiceberg takes the path of an address as it is: `%20` for a space would be the name of another directory
        return SqlCatalog("moldau", uri=uri, warehouse=f"file://{Path(warehouse).absolute()}")
    return SqlCatalog("moldau", uri=uri, warehouse=warehouse, **store_properties())


def store_properties() -> dict[str, str]:
    """What pyiceberg must be told of an object store: Arrow asks Amazon where a bucket is, unless it is told. The rest
    Arrow takes from the environment by itself."""
    names = {"s3.endpoint": "AWS_ENDPOINT_URL", "s3.region": "AWS_REGION"}
    return {key: os.environ[name] for key, name in names.items() if name in os.environ}
