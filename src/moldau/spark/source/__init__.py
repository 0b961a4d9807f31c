"""Topics, and other places, as streams of Spark.

client_pool: clients that a process keeps between tasks
feeds: rows of any place as a stream
offsets: options to offsets, offsets to tasks
reading: a task's ranges as Arrow batches
source: the source of `format("moldau")`
topics: partitions and offsets for the source
"""
