"""Converters between the bytes of a topic and records of connectors, by the names of Kafka Connect.

converter: the protocol of converters
header_parser: the schema and value that the text of a header stands for
java_numbers: numbers as Java writes them
json: JSON with the schema in each message, or without
json_reading: functions from decoded JSON to a value with a schema
json_schemas: a schema as JSON, and back
json_writing: functions from a value with a schema to what JSON writes
logical: values of logical types, as numbers and bytes and back
named: converters by Kafka's names and by short names
plain: texts, bytes, numbers and booleans
registry/: converters whose schemas are in a schema registry
schema_cache: what a converter makes of a schema, made once
simple_headers: the converter of headers that Kafka Connect uses unless told otherwise
texts: values as texts
"""
