"""Decisions of the console, without a cluster.

browsing: the question of a search, read from a query string
connectors: connectors, as the workers describe them
pipeline_groups: chooses the groups to ask about
shown: bytes and numbers in readable form
sql_answers: answers of a SQL service as text and tables
sql_facts: what a SQL service tells of its streams, tables and queries
sql_picture: streams, tables and queries as boxes and lines
"""
