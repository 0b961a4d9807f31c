"""Sources of pipelines. Each kind is a class in a module here.

by_key: rows of a database table in the order of a column
datasource: a Python data source, or a format of Spark
delta: a Delta table
feed_source: sources over `moldau.spark.feeds`
file_patterns: patterns of file names
files: files of a directory or an object store
iceberg: an Iceberg table
object_files: files of an object store as a feed
object_form: one version of an object in a store
postgresql: a table in PostgreSQL
records: sources whose records are decoded
source: the base class of sources
sqlite: a table in SQLite
stored_times: times as SQLite stores them
topic: a topic, several topics, or the newest record of each key
"""

from __future__ import annotations

from moldau.products.pipelines.core.kinds import kinds_in
from moldau.products.pipelines.sources.source import Source


def all_sources() -> dict[str, type[Source]]:
    """By each key that selects the kind."""
    kinds = [kind for kind in kinds_in(__name__, __path__) if issubclass(kind, Source)]
    return {key: kind for kind in kinds for key in kind.NAMED_BY}
