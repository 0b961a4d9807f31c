"""DataFrames and the files of their rows, for formats and targets of pipelines.

by_record: whether each row comes from one record
columns: columns computed in Python
folders: a directory on a disk or in an object store
parquet_parts: rows of a batch as Parquet files
"""
