"""Draws each order by the version of its schema: result.png."""

from collections import Counter

import matplotlib
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.columnar import read_topic

matplotlib.use("Agg")
from matplotlib import pyplot

registry = SchemaRegistryClient({"url": "http://127.0.0.1:8081"})
deserialize = AvroDeserializer(registry)
versions = {registry.get_version("orders-value", version).schema_id: version for version in (1, 2)}
found = []
for batch in read_topic("127.0.0.1:9092", "orders"):
    for offset, value in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True):
        version = versions[int.from_bytes(value[1:5])]  # the serializer writes a zero, the schema's id, the record
        order = deserialize(value, SerializationContext("orders", MessageField.VALUE))
        found.append((offset, version, order["pieces"], order.get("gift", False)))
figure, axes = pyplot.subplots(figsize=(8, 3))
for label, color, wanted in (
    ("version 1", "#9fc5d8", lambda version, gift: version == 1),
    ("version 2", "#0e7490", lambda version, gift: version == 2 and not gift),
    ("version 2, a gift", "#e08e45", lambda version, gift: version == 2 and gift),
):
    rows = [(offset, pieces) for offset, version, pieces, gift in found if wanted(version, gift)]
    axes.bar([offset for offset, _ in rows], [pieces for _, pieces in rows], color=color, label=label, width=1)
axes.set(xlabel="offset in the topic", ylabel="pieces", ylim=(0, 11.5))
axes.legend(frameon=False, ncols=3, loc="upper center")
figure.tight_layout()
figure.savefig("result.png")
counts = Counter(version for _, version, _, _ in found)
print(", ".join(f"{count} orders of version {version}" for version, count in sorted(counts.items())))
