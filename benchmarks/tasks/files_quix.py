"""Writes orders as Parquet files."""

import sys

from quixstreams import Application
from quixstreams.sinks.community.file.formats import ParquetFormat
from quixstreams.sinks.community.file.local import LocalFileSink

servers, folder = sys.argv[1:]
application = Application(servers, consumer_group="files", auto_offset_reset="earliest", state_dir=f"{folder}/state")
orders = application.dataframe(application.topic("orders", value_deserializer="json"))
orders.sink(LocalFileSink(directory=f"{folder}/out", format=ParquetFormat()))
application.run()
