"""Compaction and retention of a log.

cleanable: which part of a compacted log is cleaned next
cleaned_records: the records of a batch that compaction keeps
cleaned_transactions: which transactional batches compaction may drop
compaction: one round of compaction (KIP-354, 534)
key_offsets: the last offset of each key, in bounded memory
retention: which segments are deleted
swap: puts cleaned segments in place
"""
