"""Streaming SQL over topics.

language/: statements as values: tokens, parser, errors. Without Spark
"""
