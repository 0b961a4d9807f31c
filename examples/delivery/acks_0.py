"""acks=0: no broker answers. The client calls a record written once it is sent, so every failure loses records."""

from shared import send_numbers

send_numbers({"acks": "0", "enable.idempotence": False})
