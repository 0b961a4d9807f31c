"""The contract of a connector: a class of Spark's Python data source API (`pyspark.sql.datasource.DataSource`).

A source has `streamReader`, `simpleStreamReader`, or only `reader`, which reads once and ends. A sink has
`streamWriter`. A class may also have these of ours; without them it runs too:

- `settings`: a tuple of `moldau.connect.configuration.Setting`, for validation. Their names are without a prefix.
- `delivery`: "exactly-once" or "at-least-once". A sink without it is at least once. A source is exactly once, because
  its place is kept in the transaction of its records.
- `version`: a text. Without it, the version of the distribution that has the class.
- `key_columns`: the names of the columns that make the key of a record, unless the connector gives whole records. It
  may be a property, whose value depends on the options.
- `row_columns`: the rows that a sink gets, "record" (default) or "value" (see `columns`).
- `is_repeatable`: True says that each read of a partition of a batch `reader` gives the same rows in the same order. A
  partition is then written in several transactions; without it, in one.
- `split(config, n)`: a class method or static method, which gives at most n configurations, one for each task. Without
  it a source has one task. A sink needs none: its tasks share the partitions of the topics.
- `read(start, limit)` of a SimpleDataSourceStreamReader: the reader that has a second parameter gets a
  `ReadMaxRows` for each read. Spark calls it with `start` alone, so the parameter needs a default.
- `rejected` of the message that a sink's `write` returns: pairs of a row's place (from 0, of the rows that this `write`
  got) and a reason. Such a row must not be in the batch. It becomes a dead letter, or fails the task before `commit`.

A sink stages rows in `write`, under a name that no other process uses. `commit(messages, batchId)` publishes them, and
must be harmless if it is repeated. The sink raises `moldau.connect.handling.stages.RetriableError` for a target that is
away: `errors.retry.timeout` says how long the batch is tried again.

The options of the class are the configuration of the connector, as texts, without regard to case.

bounds: bounds that people meet
columns: the columns of a record, of a source and of a sink
ddl: reads a schema in DDL without a session
describing: what a connector's class can do
finding: finds a connector's class by its name
runners: the programs that may run tasks
schemas: schemas and rows of Spark as those of Kafka Connect, and the other way round
shared_settings: the settings that every connector has
"""
