"""Takes orders: asks the stock for each, waits for the reply with the same correlation id, and says in an event what
became of it."""

import json
import time
from random import Random

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from service import SERVERS

ORDERS = 400
PATIENCE_S = 120
draw = Random(11)
items = ["bread", "butter", "cheese", "honey", "milk", "tea"]
producer = Producer({"bootstrap.servers": SERVERS, "enable.idempotence": True, "linger.ms": 0})
replies = Consumer({"bootstrap.servers": SERVERS, "group.id": "orders", "isolation.level": "read_committed"})
replies.assign([TopicPartition("stock-replies", 0, OFFSET_BEGINNING)])
waiting: dict[str, tuple[dict, float]] = {}
EVENTS = {"accepted": "OrderAccepted", "rejected": "OrderRejected", "unreadable": "OrderFailed"}


def read_a_reply(seconds: float) -> None:
    message = replies.poll(seconds)
    if message is None or message.error():
        return
    order, asked = waiting.pop(dict(message.headers())["correlation-id"].decode())
    event = {
        "type": EVENTS[json.loads(message.value())["is"]],
        **order,
        "waited_ms": round(1000 * (time.monotonic() - asked), 1),
    }
    producer.produce("order-events", json.dumps(event), order["order"])


for number in range(ORDERS):
    order = {"order": f"order-{number}", "item": draw.choice(items), "quantity": draw.randint(1, 3)}
    if number % 150 == 99:
        order["quantity"] = "a few"
    waiting[order["order"]] = order, time.monotonic()
    headers = {"correlation-id": order["order"], "reply-to": "stock-replies"}
    producer.produce("stock-requests", json.dumps(order), order["item"], headers=headers)
    read_a_reply(0.01)
end = time.monotonic() + PATIENCE_S
while waiting and time.monotonic() < end:
    read_a_reply(0.1)
producer.flush(30)
if waiting:
    raise SystemExit(f"no reply for {', '.join(waiting)}")
