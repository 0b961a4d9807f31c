"""As retries, with numbered batches: the broker drops what it has already. Each record is there once, in order."""

from shared import send_numbers

send_numbers({"acks": "all", "enable.idempotence": True})
