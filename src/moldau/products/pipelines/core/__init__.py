"""A pipeline before it runs: sources, flows, targets, checks. Without Spark.

case: a test of a pipeline
cluster: the cluster that a pipeline, a source or a target names
column_types: declared columns with Spark's types
commit_metadata: metadata that a pipeline commits with its offsets
data_source: the data source that a section names
failures: a failure as a sentence, and the record that caused it
function: the tables that a Python flow reads, from its source text
keys: declarations of keys: name, type, meaning
kinds: finds the kinds of sources and targets
parameters: `${NAME}` in a pipeline file
patience: retries while another system is unavailable
places: names of places, to find a source and a target that share one
plan: sources, flows and targets as a graph
section: one mapping of a pipeline file; errors have its line
select: columns of a plain SELECT
slips: topic names that are probably misspelt
start: where a pipeline begins again
statement: the relations that a SQL statement reads, and whether it groups
times: timeouts of tasks
"""
