"""The plan of a pipeline: values and decisions, without Spark, files, sockets or YAML."""
