"""Ships what was accepted. It knows the events of orders, and neither the order service nor the stock."""

from service import Outgoing, serve, transactional_producer


def ship(event: dict) -> list[Outgoing]:
    if event["type"] != "OrderAccepted":
        return []
    return [
        ("shipments", event["order"], {"order": event["order"], "item": event["item"], "pieces": event["quantity"]})
    ]


serve("shipping", transactional_producer("shipping"), "order-events", ship)
