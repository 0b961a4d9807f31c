"""Makes Spark queries of the language's queries.

composed: a text for Spark whose places lead back to the statement
expressions: expressions as Spark SQL; what they are, as far as their tokens tell
frames: the rows of a planned query as a DataFrame
groups: GROUP BY over a table
keys: the columns of a result that are its key
links: how the relations of a query over tables are joined
outputs: the columns that a SELECT gives
over_tables: the steps of a query that reads tables as they change
plan: what a query reads, gives and keeps, decided without Spark
scope: the relations of FROM, and their columns
select_text: one SELECT as Spark SQL
spark_text: a text of a statement, run by Spark
"""
