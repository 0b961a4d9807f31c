"""Runs statements: keeps the catalog, makes topics, and owns the queries of one Spark session.

answers: what a statement answers, as values
looking/: statements that only look: SHOW, DESCRIBE, SET, ASSERT
session: the variables and properties of a sender of statements
"""
