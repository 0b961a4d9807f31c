"""acks=1: the leader alone answers. It may die before a follower has fetched the record; then the record is gone."""

from shared import send_numbers

send_numbers({"acks": "1", "enable.idempotence": False, "retries": 0})
