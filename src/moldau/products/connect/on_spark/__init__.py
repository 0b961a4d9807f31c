"""The runner `spark` of connectors: a task is a process with a Spark session, and the connector a streaming query.

`python -m moldau.products.connect.on_spark` speaks the lines of `moldau.connect.running`. It runs sources.

A source's rows become records in the tasks of Spark, and one more task sends them. They are in one transaction with the
connector's place in the topic of offsets, under the transactional id GROUP-CONNECTOR-0.

Spark's checkpoint is new at each start of the query and begins at that place, so it is a folder of this process, which
nothing needs after it.

__main__: the process of a task
encoding: what the tasks of Spark do for a source
opening: the job of a task
producing: the transactions of a source
session: the Spark session of a task
source: a source as a streaming query
streams: one streaming query, and its checkpoint
"""
