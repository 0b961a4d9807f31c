"""Names of places, to find a source and a target that share one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def one_spelling(path: str | Path) -> str:
    """One form for all spellings of a path. An address in an object store has only one."""
    return str(path) if "://" in str(path) else os.path.realpath(path)


def one_list(addresses: Iterable[tuple[str, int]]) -> str:
    """One form for the brokers of a cluster, by host and port, in any order."""
    return ",".join(sorted({f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses}))


def places_of_iceberg(table: str, warehouse: str, catalog: Path) -> tuple[str, ...]:
    """The table in its warehouse, and in its catalogue: two pipelines may share either."""
    return f"{table} in {one_spelling(warehouse)}", f"{table} of {one_spelling(catalog)}"
