"""The runner `spark` of connectors: a task is a process with a Spark session, and the connector a streaming query.

`python -m moldau.products.connect.on_spark` speaks the lines of `moldau.connect.running`.

A source's rows become records in the tasks of Spark, and one more task sends them. They are in one transaction with the
connector's place in the topic of offsets, under the transactional id GROUP-CONNECTOR-0.

A sink's batch is noted in the topic of offsets, as that of a light task, and read by these offsets. Tasks give the rows
to the writer, and this process commits.

Spark's checkpoint is new at each start of the query and begins at that place, so it is a folder of this process, which
nothing needs after it.

__main__: the process of a task
decoding: what the tasks of Spark do for a sink
encoding: what the tasks of Spark do for a source
opening: the job of a task
producing: the transactions of a source
reports: what tasks of Spark report
session: the Spark session of a task
sink: a sink as a streaming query
source: a source as a streaming query
streams: one streaming query, and its checkpoint
"""
