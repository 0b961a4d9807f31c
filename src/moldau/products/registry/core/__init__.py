"""Decisions of the registry, without a cluster.

decisions: records and answer of a write
kinds/: Avro, Protobuf and JSON Schema
records: records of `_schemas`
refusals: errors with Confluent's codes
rights: roles by prefix of subjects
state: subjects, versions and ids, computed from records
"""
