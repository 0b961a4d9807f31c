"""The schema registry with Confluent's HTTP interface.

__main__: the registry as a child of a broker
core/: decisions of the registry, without a cluster
routes: paths and answers
service: the registry as a service
topic: the topic `_schemas`, read and written
"""
