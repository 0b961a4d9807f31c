"""The products for users. They talk to a cluster only as Kafka clients.

brought_protos: `.proto` files that every schema registry has
compacted_topic: a topic that all instances read and one at a time writes
connect/: the service of connectors
console/: the web console
demo/: `moldau demo`
ecma_patterns: patterns of JSON Schemas for Python's `re`
features: which features a cluster serves
json_schemas: JSON Schemas and their `$ref`
pipelines/: pipelines on Spark
proto_files: compiles `.proto` files
record_json: a record as JSON, and back
registered_values: keys and values in readable form, decoded by a registry
registry/: the schema registry
service/: logins, routes and sockets of HTTP services
sql/: streaming SQL
"""
