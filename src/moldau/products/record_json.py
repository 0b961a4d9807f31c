"""A record as the JSON object that `moldau consume --json` prints and `moldau produce --json` reads.

A key, value or header value is a string if its bytes are UTF-8, `{"base64": "..."}` if they are not, and null if it is
absent.
"""

from __future__ import annotations

from base64 import b64encode

from confluent_kafka import Message


def record_as_json(message: Message) -> dict[str, object]:
    kind, timestamp_ms = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp_ms if kind else None,
        "key": bytes_as_json(message.key()),
        "value": bytes_as_json(message.value()),
        "headers": [[name, bytes_as_json(value)] for name, value in message.headers() or []],
    }


def bytes_as_json(data: bytes | str | None) -> object:
    if data is None or isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
