"""Exactly once from topic to topic: the copies and the offsets of their sources are one transaction.

init_transactions aborts what a killed predecessor left open. Readers need isolation.level=read_committed."""

from confluent_kafka import Producer
from shared import address, after, batches, group_member, options, take_time

producer = Producer({**address, "transactional.id": f"copy-of-{options.topic}"})
producer.init_transactions()
consumer = group_member()
for batch in batches(consumer):
    producer.begin_transaction()
    for message in batch:
        producer.produce(options.target, message.value(), message.key())
        take_time()
    producer.send_offsets_to_transaction(after(batch), consumer.consumer_group_metadata())
    producer.commit_transaction()
    print(len(batch), flush=True)
consumer.close()
