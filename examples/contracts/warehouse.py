"""Reads all orders as records of its own schema: `python warehouse.py order-1.avsc`. Avro's resolution leaves out
fields that the reader does not know, and fills in the defaults of those that a record lacks."""

import sys
from collections import Counter
from pathlib import Path

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.columnar import read_topic

file = sys.argv[1]
registry = SchemaRegistryClient({"url": "http://127.0.0.1:8081"})
deserialize = AvroDeserializer(registry, Path(file).read_text())
orders, sums = 0, Counter()
for batch in read_topic("127.0.0.1:9092", "orders"):
    for value in batch.column("value").to_pylist():
        order = deserialize(value, SerializationContext("orders", MessageField.VALUE))
        orders += 1
        sums["pieces"] += order["pieces"]
        sums["gifts"] += order.get("gift", 0)
print(f"{orders} orders, {sums['pieces']} pieces" + (f", {sums['gifts']} gifts" if "gift" in order else ""))
