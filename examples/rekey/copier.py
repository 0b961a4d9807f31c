"""Copies the old topic into the new one, each record once. Each copy says where its source stands."""

import json

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from shop import COPIER, NEW, OLD, SECONDS, TopicPartition, as_new, commit, partitions_of, reader, transactional

producer = transactional(COPIER)  # before it reads its offsets: no earlier copier can change them any more
consumer = reader(COPIER, **{"enable.partition.eof": True})
committed = consumer.committed(partitions_of(consumer, OLD), SECONDS)
position = {p.partition: p.offset for p in committed}
consumer.assign([TopicPartition(OLD, p.partition, p.offset if p.offset >= 0 else OFFSET_BEGINNING) for p in committed])
while True:
    before = dict(position)
    records = []
    for message in consumer.consume(500, timeout=0.1):
        if not message.error():
            records.append(message)
            position[message.partition()] = message.offset() + 1
        elif message.error().code() == KafkaError._PARTITION_EOF:
            position[message.partition()] = message.offset()  # after the markers of transactions at the end
        else:
            raise KafkaException(message.error())
    if position == before:
        continue
    producer.begin_transaction()
    for message in records:
        key, value = as_new(message.value())
        source = [("source-partition", str(message.partition())), ("source-offset", str(message.offset()))]
        producer.produce(NEW, value, key, timestamp=message.timestamp()[1], headers=source)
    offsets = [TopicPartition(OLD, partition, offset) for partition, offset in position.items() if offset >= 0]
    commit(producer, offsets, consumer.consumer_group_metadata())
    print(json.dumps(position), flush=True)
