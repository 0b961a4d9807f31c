"""Queries while they run.

batches: writes the batches of a query
checkpoint_versions: new versions of checkpoints, from chosen offsets
dead_letters: records that do not parse
failing_record: finds the record by which a batch failed
flow: a pipeline as Spark's queries
group: offsets of a pipeline as those of a consumer group
logs: log output of Spark and libraries, in a file
preflight: questions to the cluster before Spark starts
progress: the live table
query_progress: progress and published offsets of one query
refreshing: tables in memory that streams are joined with
runner: runs a pipeline from start to stop
supervision: restarts a failed query
"""
