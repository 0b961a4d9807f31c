"""Names of places, to find a source and a target that share one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def one_spelling(path: str | Path) -> str:
    """Of a path, however a pipeline writes it; an address in an object store has one only."""
    return str(path) if "://" in str(path) else os.path.realpath(path)


def one_list(addresses: Iterable[tuple[str, int]]) -> str:
    """Of the brokers of a cluster, by host and port, in whatever order a pipeline names them."""
    return ",".join(sorted({f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses}))


def places_of_iceberg(table: str, warehouse: str, catalog: Path) -> tuple[str, ...]:
    """In the warehouse, and in the catalogue: two pipelines may share either."""
    return f"{table} in {one_spelling(warehouse)}", f"{table} of {one_spelling(catalog)}"
