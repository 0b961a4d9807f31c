"""Adds the customer's name from a compacted topic to each order."""

import sys
from datetime import timedelta

from quixstreams import Application

servers, folder = sys.argv[1:]
application = Application(
    servers,
    consumer_group="join",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    state_dir=f"{folder}/state",
)
orders = application.dataframe(application.topic("orders", value_deserializer="json"))
users = application.dataframe(application.topic("users", value_deserializer="json"))
named = orders.join_asof(users, how="inner", on_merge="keep-left", grace_ms=timedelta(days=3650))
named[["id", "name", "amount"]].to_topic(application.topic("join-out", value_serializer="json"))
application.run()
