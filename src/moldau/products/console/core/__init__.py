"""Decisions of the console, without a cluster.

browsing: the question of a search, read from a query string
pipeline_groups: chooses the groups to ask about
shown: bytes and numbers in readable form
"""
