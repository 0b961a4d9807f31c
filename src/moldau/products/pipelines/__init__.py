"""Pipelines on Spark.

Each folder imports only those before it in this order: core, checkpoints, formats, databases, sources and targets,
spec, running, looking, serving.

checkpoints/: checkpoints, and the lease of a driver on them
core/: a pipeline before it runs, without Spark
databases/: Iceberg and PostgreSQL, shared by sources and targets
formats/: bytes of records to columns, and back
looking/: plans, status, tests, pictures and the board
running/: queries while they run
serving/: a directory of pipelines, each in a process
sources/: kinds of sources
spec/: pipeline files, of YAML or Python
targets/: kinds of targets
"""
