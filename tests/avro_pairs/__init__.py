"""Random pairs of Avro schemas and records, read and written by Moldau and by Apache Avro for Java."""
