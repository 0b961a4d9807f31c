"""Kafka Connect's REST interface.

bodies: the bodies of requests
forwarding: requests that another worker must answer
routes: paths, methods, codes
served: a worker over HTTP
"""
