"""Statements that only look: from the catalog, the session and the cluster to answers. Without Spark.

asserting: ASSERT TOPIC, SCHEMA, STREAM and TABLE
cluster: what statements ask of the cluster and the registry, and the port for it
describing: DESCRIBE
looking: the function of each statement
pictures: the plan of EXPLAIN as boxes of text
sight: what a statement that looks may see
session_properties: SET, UNSET, DEFINE and UNDEFINE; the known properties
shows: SHOW and LIST
"""
