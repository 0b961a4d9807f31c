"""Topics as a sink of Spark, with a transaction for each batch.

checkpoint_offsets: the query and offsets of a checkpoint, for the sink
sink: the sink of `format("moldau")`
target_partitions: moves rows to the task of their partition
transactions: one transaction for each batch
"""
