"""Sends a hundred orders by a version of the contract: `python shop.py order-1.avsc`. The shop registers nothing: a
schema that is not in the registry is an error here, before a record is written."""

import sys
from pathlib import Path
from random import Random

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

file = sys.argv[1]
registry = SchemaRegistryClient({"url": "http://127.0.0.1:8081"})
serialize = AvroSerializer(registry, Path(file).read_text(), conf={"auto.register.schemas": False})
producer = Producer({"bootstrap.servers": "127.0.0.1:9092", "enable.idempotence": True})
draw = Random(file)
for number in range(100):
    order = {
        "order": f"{file[6]}-{number}",
        "item": draw.choice(["bread", "honey", "tea"]),
        "pieces": draw.randint(1, 9),
        "gift": draw.random() < 0.2,  # a field that the schema lacks is left out
    }
    try:
        value = serialize(order, SerializationContext("orders", MessageField.VALUE))
    except SchemaRegistryError as error:
        raise SystemExit(f"{file}: {error.error_message}") from None
    producer.produce("orders", value, order["order"])
if producer.flush(30):
    raise SystemExit("not all orders were written")
print(f"100 orders by {file}")
