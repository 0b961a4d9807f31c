"""Topics, and other sources of rows, as Spark streams.

client_pool: clients that a process keeps between tasks
feeds: rows from any other source as a stream
idle: lets idle streams wait for records
offsets: options to offsets, offsets to tasks
reading: a task's ranges as Arrow batches
record_watch: waits for new records of topics
source: the source of `format("moldau")`
topics: partitions and offsets for the source
"""
