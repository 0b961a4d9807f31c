"""Targets of pipelines. Each kind is a class in a module here.

changes: changes of rows by key, also with history
datasource: a Python data source, or a format of Spark
delta: a Delta table
folder_owner: the owner of a directory
iceberg: an Iceberg table
iceberg_upsert: replaces rows of an Iceberg table
parquet: a directory of Parquet files
postgresql: a table in PostgreSQL
rights: whether this process can write to a local place
sql_table: the base of PostgreSQL and SQLite targets
sqlite: a table in SQLite
table_columns: checks columns of rows against those of a table
table_target: targets that are tables
target: the base class of targets
terminal: the terminal
topic: a topic
webhook: an HTTP server
"""

from __future__ import annotations

from moldau.products.pipelines.core.kinds import kinds_in
from moldau.products.pipelines.targets.target import Target


def all_targets() -> dict[str, type[Target]]:
    """By the key that selects the kind."""
    return {kind.NAMED_BY: kind for kind in kinds_in(__name__, __path__) if issubclass(kind, Target)}
