"""Writes Avro orders as Parquet files."""

import json
import sys
from pathlib import Path

from quixstreams import Application
from quixstreams.models.serializers.avro import AvroDeserializer
from quixstreams.sinks.community.file.formats import ParquetFormat
from quixstreams.sinks.community.file.local import LocalFileSink

servers, folder = sys.argv[1:]
application = Application(servers, consumer_group="avro", auto_offset_reset="earliest", state_dir=f"{folder}/state")
schema = json.loads(Path(__file__).with_name("order.avsc").read_text())
orders = application.dataframe(application.topic("orders-avro", value_deserializer=AvroDeserializer(schema)))
orders.sink(LocalFileSink(directory=f"{folder}/out", format=ParquetFormat()))
application.run()
