"""The files of a log: segments, indexes, checkpoints.

checkpoint: Kafka's small text files: checkpoints, partition.metadata, clean shutdown
flush: the fsyncs of a flush
flushed_offset: the flushed offset of the metadata log
offset_index: the offset index of a segment
old_formats: messages of the formats 0 and 1
segment: one segment and its indexes
segments: the segments of a log and their file names
time_index: the time index of a segment (KIP-33)
transaction_index: aborted transactions of a segment (KIP-98)
"""
