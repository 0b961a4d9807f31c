"""The Kafka clients that the library works with. Their packages are imported by the programs that use them.

aio_kafka: aiokafka
choosing: the adapter of a client's object
confluent: confluent-kafka
kafka_python: kafka-python
port: what the library asks of a client
transactions: transactional producers of an outbox
"""
