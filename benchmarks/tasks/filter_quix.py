"""Copies large orders to their own topic."""

import sys

from quixstreams import Application

servers, folder = sys.argv[1:]
application = Application(
    servers,
    consumer_group="filter",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    state_dir=f"{folder}/state",
)
orders = application.dataframe(application.topic("orders", value_deserializer="json"))
large = orders[orders["amount"] >= 50][["id", "amount"]]
large.to_topic(application.topic("filter-out", value_serializer="json"))
application.run()
