"""The purchases of each country in each minute, once the minute is over."""

import sys
from datetime import UTC, datetime, timedelta

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

servers, folder = sys.argv[1:]
application = Application(
    servers,
    consumer_group="window",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    state_dir=f"{folder}/state",
)


def time_of(value, headers, timestamp, timestamp_type):
    return int(datetime.fromisoformat(value["at"]).timestamp() * 1000)


orders = application.dataframe(application.topic("orders", value_deserializer="json", timestamp_extractor=time_of))
minutes = orders.group_by("country").tumbling_window(timedelta(minutes=1), grace_ms=timedelta(seconds=10))
sums = minutes.agg(orders=Count(), amount=Sum("amount")).final()


def row_of(value, key, timestamp, headers):
    start = datetime.fromtimestamp(value["start"] / 1000, UTC).isoformat()
    return {"country": key, "start": start, "orders": value["orders"], "amount": value["amount"]}


sums.apply(row_of, metadata=True).to_topic(application.topic("window-out", value_serializer="json"))
application.run()
