"""Records of connectors: a schema and a value, as in Kafka Connect (org.apache.kafka.connect.data).

record: a record with its headers
schema: the schema of a key, a value or a header
"""
