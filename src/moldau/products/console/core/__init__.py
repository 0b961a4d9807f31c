"""Decisions of the console, without a cluster.

browsing: the question of a search, read from a query string
pipeline_groups: which groups are asked for
shown: bytes and numbers as people read them
"""
