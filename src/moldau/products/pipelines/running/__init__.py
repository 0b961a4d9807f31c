"""Queries while they run.

batches: writes the batches of a query
checkpoint_versions: new versions of checkpoints, from chosen offsets
dead_letters: records that do not parse
failing_record: finds the record that made a batch fail
flow: a pipeline as Spark's queries
group: offsets of a pipeline as those of a consumer group
logs: log output of Spark and libraries, in a file
preflight: checks of clusters and places before Spark starts
progress: the live table
query_progress: progress and published offsets of one query
refreshing: cached tables that streams are joined with
runner: runs a pipeline in a process of its own
running_pipeline: a pipeline in a Spark session
stopping: requests to stop
"""
