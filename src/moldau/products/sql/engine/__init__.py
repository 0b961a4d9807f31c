"""Runs statements: keeps the catalog, makes topics, and owns the queries of one Spark session.

answers: what a statement answers, as values; no door's form of it
looking/: statements that only look: SHOW, DESCRIBE, SET, ASSERT
session: the variables and properties of one who sends statements
"""
