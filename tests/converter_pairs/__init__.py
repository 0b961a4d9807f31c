"""The converters of connectors against Apache Kafka's: the same values and bytes through both.

corpus: the values and bytes, and the cases in which the answers differ, with reasons
kafka: the answers of Apache Kafka, from Java or as recorded
ours: our answers in the same form
"""
