"""Registers a version of the contract: `python register.py order-1.avsc`. A step of the shop's release: it fails if the
registry rejects the schema."""

import sys
from pathlib import Path

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

SUBJECT = "orders-value"
file = sys.argv[1]
registry = SchemaRegistryClient({"url": "http://127.0.0.1:8081"})
registry.set_compatibility(SUBJECT, "FULL_TRANSITIVE")  # old and new records and readers, in any combination
try:
    registry.register_schema(SUBJECT, Schema(Path(file).read_text(), "AVRO"))
except SchemaRegistryError as error:
    print(f"{file} is rejected ({error.http_status_code}): {error.error_message}")
    sys.exit(1)
print(f"{file} is version {registry.get_latest_version(SUBJECT).version} of {SUBJECT}")
