"""One audit event as one line of JSON.

A text from a client cannot end the line or move the cursor of a terminal.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

import msgspec

MAX_TEXT: Final = 1_000
"""The most characters of a text in a line; a longer one is cut and ends with "...". Kafka names have up to 32 KiB."""

CHANGE: Final = "change"
AUTHENTICATION: Final = "authentication"
AUTHORIZATION: Final = "authorization"
TLS: Final = "tls"
LEFT_OUT: Final = "left out"

ALLOWED: Final = "allowed"
DENIED: Final = "denied"


class Origin(msgspec.Struct, frozen=True):
    """The client and its address. `forwarded_by`: the address of the broker that forwarded the request, or ""."""

    principal: str
    address: str
    listener: str
    client_id: str = ""
    forwarded_by: str = ""


class Event(msgspec.Struct, frozen=True):
    """`operation`: the name of an API or of an ACL operation. `result`: ALLOWED, DENIED or an error name. `left_out`:
    denials of this client that were not written since the last line."""

    time_ms: int
    kind: str
    origin: Origin
    operation: str
    resource_type: str
    resource: str
    result: str
    detail: str = ""
    left_out: int = 0


def line_of(event: Event, node_id: int) -> bytes:
    """The line with its newline, in printable ASCII. Fields without a value are left out."""
    time = datetime.fromtimestamp(event.time_ms / 1_000, UTC)
    origin = event.origin
    fields: dict[str, str | int] = {
        "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "node": node_id,
        "event": event.kind,
        "principal": origin.principal,
        "address": origin.address,
        "listener": origin.listener,
        "client_id": origin.client_id,
        "forwarded_by": origin.forwarded_by,
        "operation": event.operation,
        "resource_type": event.resource_type,
        "resource": event.resource,
        "result": event.result,
        "detail": event.detail,
        "left_out": event.left_out,
    }
    said = {name: _cut(value) for name, value in fields.items() if value not in ("", 0) or name == "node"}
    return json.dumps(said, ensure_ascii=True).replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def _cut(value: str | int) -> str | int:
    return value[:MAX_TEXT] + "..." if isinstance(value, str) and len(value) > MAX_TEXT else value
