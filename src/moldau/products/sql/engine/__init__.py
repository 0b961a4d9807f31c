"""Runs statements: keeps the catalog, makes topics, and owns the queries of one Spark session.

answers: what a statement answers, as values
cases: tests of SQL in a text
compiled: a query of a statement, compiled, and its frame in a session
engine: runs statements
explaining: EXPLAIN
function_files: files of Python functions
inserting: INSERT INTO ... VALUES
looking/: statements that only look: SHOW, DESCRIBE, SET, ASSERT
maintained: the persistent queries that are to run
printing: PRINT
results: the stream or table that a query makes
row_streams: rows that someone reads, from a thread that makes them
running: a persistent query as a pipeline of one query
selecting: SELECT by itself
session: the variables and properties of a sender of statements
topics: makes and deletes topics
"""
