"""Converters whose schemas are in a schema registry, with the wire format of Confluent's serializers.

avro: Avro with a schema registry
avro_schemas: a schema of a record as an Avro schema, and back
avro_values: functions between values and those of the Avro library
schemas: the schemas of a registry
"""
