"""Writes the readings of a device to the broker on it, up to a number: `python device.py BROKER END`.

The number of a reading is its offset, so the end of the log says where a device goes on.
"""

import json
import sys
import time
from random import Random

from confluent_kafka import Consumer, Producer, TopicPartition
from settings import BYTES, SECONDS, TOPIC, client

broker, end = sys.argv[1], int(sys.argv[2])
log = Consumer(client(broker) | {"group.id": "device"})
_, begin = log.get_watermark_offsets(TopicPartition(TOPIC, 0), SECONDS)
producer = Producer(client(broker) | {"enable.idempotence": True, "linger.ms": 20})
draw = Random(begin)
for number in range(begin, end):
    samples = draw.randbytes(BYTES // 2 - 25).hex()
    producer.produce(TOPIC, json.dumps({"number": number, "samples": samples}), "pump-1")
    if number % 200 == 199:
        if producer.flush(120) > 0:
            sys.exit("the broker on the device is gone")
        print(number + 1, flush=True)
        time.sleep(0.02)
