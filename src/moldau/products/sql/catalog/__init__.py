"""Which streams, tables, types and queries there are, and what a statement changes of them. Without Spark.

catalog: the relations and queries that the statements so far have made
declarative: the statements of Declarative Pipelines
deciding: what a statement changes: decide a statement, apply the decision
journal: where changes are kept, and their stored form
reads: the relations that a query reads
storage: the properties of WITH: a topic and its formats
"""
