"""acks=all: all replicas in sync have the record before the answer. With min.insync.replicas=1 that may be one."""

from shared import send_numbers

send_numbers({"acks": "all", "enable.idempotence": False, "retries": 0})
