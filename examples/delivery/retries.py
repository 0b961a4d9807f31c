"""As acks_all_two, and the client sends again what failed. If only the answer was lost, the record is there twice."""

from shared import send_numbers

send_numbers({"acks": "all", "enable.idempotence": False})  # librdkafka retries by default
