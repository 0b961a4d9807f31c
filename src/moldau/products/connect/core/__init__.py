"""What a worker of connectors decides, without waiting: the state of its three topics, and what a request changes.

answers: answers of the REST interface about connectors
back_off: when a task that failed starts again
configs: the configurations of connectors and tasks, folded from the topic of configurations
decisions: the records of a request that changes a connector
offsets: the offsets of source connectors, folded from the topic of offsets
progress: how far a task is
refusals: rejected requests
shares: the share of the tasks to which a task belongs
statuses: the states of connectors and tasks, folded from the topic of statuses
traces: the trace of a failure, for people
"""
