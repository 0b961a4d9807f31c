"""Answers requests for items. What is left of each item is a record of the compacted topic `stock-levels`, written in
the transaction of the answer: a service that starts again reads it there."""

import json

from service import REPLY, SERVERS, Outgoing, serve, transactional_producer

from moldau.columnar import read_topic

PIECES = 100
producer = transactional_producer("stock")
levels: dict[str, int] = {}
for batch in read_topic(SERVERS, "stock-levels"):
    for item, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
        levels[item.decode()] = json.loads(value)["left"]


def reserve(request: dict) -> list[Outgoing]:
    """The reply, whose topic the request names, and the new level."""
    item, quantity = request["item"], request["quantity"]
    if not isinstance(quantity, int):
        raise ValueError(f"quantity is not a number: {quantity!r}")
    left = levels.setdefault(item, PIECES)
    if quantity > left:
        return [(REPLY, item, {"is": "rejected", "left": left})]
    levels[item] = left - quantity
    return [(REPLY, item, {"is": "accepted"}), ("stock-levels", item, {"left": levels[item]})]


serve("stock", producer, "stock-requests", reserve)
