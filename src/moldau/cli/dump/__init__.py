"""Readers of the files of a log directory, for `moldau log dump` and `kafka-dump-log`.

batches: segments: batches and records
decoders: records of internal topics and of the metadata log as JSON
index_checks: whether indexes fit their segment
indexes: indexes, producer snapshots, checkpoints, properties
"""
