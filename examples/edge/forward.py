"""Forwards the readings of a device to the centre, each once: `python forward.py DEVICE CENTRE`.

Its place in the log of the device is a committed offset at the centre, in the transaction that writes the readings
there. If the device has deleted readings that were not forwarded, a record says which.
"""

import json
import signal
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from settings import SECONDS, TOPIC, client

NAME = "device-1"

device, centre = client(sys.argv[1]), client(sys.argv[2])
producer = Producer(centre | {"transactional.id": NAME, "transaction.timeout.ms": 20_000})
producer.init_transactions(SECONDS)  # an earlier forwarder cannot write any more; what it left open is aborted
place = Consumer(centre | {"group.id": NAME, "isolation.level": "read_committed"})
next_offset = max(0, place.committed([TopicPartition(TOPIC, 0)], SECONDS)[0].offset)
SMALL = {"queued.max.messages.kbytes": 256, "max.partition.fetch.bytes": 256 << 10}  # read ahead: little memory
consumer = Consumer(device | SMALL | {"group.id": NAME, "enable.auto.commit": False, "auto.offset.reset": "error"})


def go_on():
    """At the place, or at the first reading that the device has kept after it."""
    first, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), SECONDS)
    if next_offset > end:
        sys.exit(f"the device has no reading {next_offset - 1}, which was forwarded: it is another log")
    consumer.assign([TopicPartition(TOPIC, 0, max(next_offset, first))])


go_on()
while True:
    signal.alarm(int(2 * SECONDS))  # ends a program that hangs (librdkafka's issue 5456)
    messages = consumer.consume(1000, timeout=0.2)
    for error in (message.error() for message in messages if message.error()):
        if error.code() != KafkaError._AUTO_OFFSET_RESET:
            raise KafkaException(error)
        go_on()  # retention was faster
    readings = [message for message in messages if not message.error()]
    if not readings:
        continue
    producer.begin_transaction()
    for message in readings:
        if message.offset() > next_offset:
            producer.produce(TOPIC, json.dumps({"missing": [next_offset, message.offset()]}), message.key())
        producer.produce(TOPIC, message.value(), message.key(), timestamp=message.timestamp()[1])
        next_offset = message.offset() + 1
    offsets = [TopicPartition(TOPIC, 0, next_offset)]
    producer.send_offsets_to_transaction(offsets, place.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)
    print(next_offset, flush=True)
