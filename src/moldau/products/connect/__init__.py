"""The service of connectors (`moldau connect serve`): workers with Kafka Connect's REST interface and topics.

config_topic: the configurations, which one worker at a time writes
connector_offsets: the offsets of connectors
core/: what a worker decides, without waiting
followed_topic: a topic that every worker reads and any may write
loggers: the levels of a worker's loggers
membership: the group of workers, and their shares of the tasks
on_spark/: the runner `spark`: a connector as a streaming query
pipelines/: a pipeline as a connector
planning: what the leader does for each connector
requests: what a request of the REST interface does
rest/: the REST interface over HTTP
running/: the tasks of a worker
settings: the settings of a worker
splitting: the tasks of a connector
status_topic: the states of connectors and tasks
worker: one worker
"""
