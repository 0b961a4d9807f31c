"""The log of a partition: batches in, byte ranges out. Segments, indexes, recovery, retention, compaction, directories.

appending: the input and result of an append
cleaning/: compaction and retention
copying: batches appended unchanged, for followers and moves
directories/: log directories, moves, strays
files/: segments, indexes and checkpoint files
leader_epochs: start offsets of leader epochs (KIP-101, 279)
log: `Log`: appends, reads, flushes, truncation
producer_state: idempotent producers and open transactions (KIP-98)
reading: whole batches of a segment
recovery/: the start after a crash, and damage
settings: `LogSettings`: the topic settings of a log
timestamp_search: an offset by timestamp
"""
