"""Tables as changelogs in streaming queries: operators that stay right when rows of either table change or go.

`Side` names a table: its changelog (rows by key, deletes among them) or its changes. Each operator gives changes, so
operators chain in one query, and SELECT and WHERE go between them. `upserts` makes of changes one row for each key, for
the target. A query over these operators starts in the context `start.for_tables`, in the mode append or update.

aggregates: aggregates by other columns, of tables and streams
buckets: changes, sides, and processors that handle the rows of a bucket of keys
joins: joins on the keys
lookups: rows of a stream with the newest rows of a table
newest: changes of a changelog, and upserts of changes
references: joins on a foreign key
start: settings of the session when a query starts
state: many values by keys in one exchange with Spark's state store
totals: aggregates that rows enter and leave
"""

from __future__ import annotations

from moldau.extras import require_extra

require_extra("moldau.spark.tables", "protobuf", ("google.protobuf",))  # Spark's transformWithState talks in it
