"""Transforms and predicates: functions of a record, with the names, settings and behaviour of Apache Kafka's (KIP-66).

A transform gives a new record, or None for a record that is left out.

casting: Cast
chain: the chain of a configuration
field_paths: names and paths of fields
fields: ExtractField, HoistField, InsertField, ReplaceField and ValueToKey
flattening: Flatten
headers: DropHeaders, HeaderFrom, InsertHeader and HasHeaderKey
java_dates: Java's date formats
java_numbers: numbers as Java parses and narrows them
java_regex: Java's regular expressions
masking: MaskField
metadata: SetSchemaMetadata
named: transforms and predicates by their names
parts: what transforms share
settings: settings that several transforms have
timestamps: TimestampConverter
topics: RegexRouter, TimestampRouter and TopicNameMatches
"""
