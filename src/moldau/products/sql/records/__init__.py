"""Records of topics as rows of streams and tables, and back.

bare: keys of one column in a registry's formats
encoding: rows as records
given: records of tests
inserts: the rows of INSERT INTO ... VALUES
kafka_bytes: the format KAFKA: the bytes of Kafka's own serializers
layout: where in a record the columns of a relation are
part: the base class for the key or value of a record
parts: the part for each format
record_format: records as rows
registered: the formats AVRO, PROTOBUF and JSON_SR
resolving: columns from the schemas of a registry
schemas: schemas for a registry, from columns
source: a relation as a source
target: a relation as a target
texts: the formats JSON and DELIMITED
"""
