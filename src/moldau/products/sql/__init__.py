"""Streaming SQL over topics.

catalog/: the streams, tables and queries that exist, and what a statement changes of them. Without Spark
compiling/: queries of statements as queries of Spark
engine/: runs statements
language/: statements as values: tokens, parser, errors. Without Spark
records/: records of topics as rows of streams and tables, and back
terminal/: the shell, and answers as text
serving/: the statements of a service, and which instance runs them
"""
