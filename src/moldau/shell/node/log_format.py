"""Formats log lines for standard error: as text, or as one JSON object a line for programs.

    2026-11-21 11:45:03.120 INFO  node 1 serves 127.0.0.1:9092 ...
    2026-11-21 11:45:03.120 INFO  [2] topic orders is created ...            one of several nodes adds its id
    {"time": "2026-11-21T11:45:03.120Z", "level": "INFO", "kind": "node started", "node": 1, "message": "..."}

Text keeps the line breaks of a trace; in JSON the whole message is one string. Times are UTC.
"""

from __future__ import annotations

import json
import logging
import time

FORMATS = ("text", "json")


class TextFormat(logging.Formatter):
    """`names_node`: lines begin with the node id."""

    def __init__(self, *, names_node: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-5s %(message)s", "%Y-%m-%d %H:%M:%S")
        self.converter = time.gmtime
        self._names_node = names_node

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        node = getattr(record, "fields", {}).get("node")
        if self._names_node and node is not None:
            record.message = f"[{node}] {record.message}"
        return super().formatMessage(record)


class JsonFormat(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "kind": getattr(record, "kind", ""),
            **getattr(record, "fields", {}),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def start_logging(log_format: str, *, names_node: bool = False) -> None:
    """Sends our own loggers to standard error, from INFO on, without touching a host program's loggers. For a process
    of ours. May be called again once the node is known to be one of several."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormat() if log_format == "json" else TextFormat(names_node=names_node))
    ours = logging.getLogger("moldau")
    ours.setLevel(logging.INFO)
    ours.handlers = [handler]
    ours.propagate = False
