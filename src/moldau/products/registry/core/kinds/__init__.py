"""Kinds of schemas: parsing, canonical form, compatibility.

avro: Avro
avro_defaults: whether Avro defaults have the type of their field
json_nodes: keywords of one node of a JSON Schema
json_patterns: which patterns can run in bounded time
json_reading: whether a reader's JSON Schema allows a writer's documents
json_sameness: whether two JSON Schemas are equal
json_schema: JSON Schema
kind: the base class of kinds
kinds: the kinds by name
proto_text: a FileDescriptorProto as `.proto` text
protobuf: Protobuf
"""
