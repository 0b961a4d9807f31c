"""Converters whose schemas are in a schema registry, with the wire format of Confluent's serializers.

avro: Avro with a schema registry
avro_schemas: a schema of a record as an Avro schema, and back
avro_values: functions between values and those of the Avro library
json_schema: JSON with a JSON Schema in a schema registry
json_schema_forms: a schema of a record as a JSON Schema, and back
protobuf: Protobuf with a schema registry
protobuf_schemas: a schema of a record as a Protobuf file, and back
protobuf_values: functions between values and Protobuf messages
schemas: the schemas of a registry
"""
