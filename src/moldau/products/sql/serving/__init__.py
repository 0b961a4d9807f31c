"""`moldau sql serve`: the statements of a service are kept in a topic, and one instance runs them.

election: the group of the instances, of which one is chosen
http/: the HTTP interface, in ksqlDB's shapes
served: an instance over HTTP
service: one instance: waits, leads, steps down
service_ids: the ids of services
statement_topic: the statements in a compacted topic, and who may write them
"""
