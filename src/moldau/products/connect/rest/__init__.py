"""Kafka Connect's REST interface.

bodies: the bodies of requests
forwarding: requests that another worker must answer
metrics: what `/metrics` says of the tasks
progress: the progress of tasks, gathered from the workers
routes: paths, methods, codes
served: a worker over HTTP
"""
