"""acks=all, into a topic with min.insync.replicas=2: two replicas have the record, or the client reports an error."""

from shared import send_numbers

send_numbers({"acks": "all", "enable.idempotence": False, "retries": 0})
