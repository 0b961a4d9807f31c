"""Checkpoints of Spark's queries.

checkpoint: source offsets of the newest finished batch
file_log: files that a query has read
found_files: files of an object store that a query has found
lease: allows one driver at a time
"""
