"""The log for programs: one JSON object a line, with any message."""

from __future__ import annotations

import json
import logging

from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.network.event_log import EventLog, logger
from moldau.shell.node.log_format import JsonFormat, TextFormat


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def kept(log: EventLog, message: str, **fields: str | int) -> logging.LogRecord:
    handler = Kept()
    logger.addHandler(handler)
    try:
        log.error("partition changed", message, **fields)
    finally:
        logger.removeHandler(handler)
    return handler.records[0]


def test_a_line_has_node_partition_and_epoch_beside_the_message() -> None:
    record = kept(EventLog(ManualClock(), 7), 'two\nlines and a "quote"', topic="t", partition=3, epoch=5)
    line = JsonFormat().format(record)
    assert "\n" not in line
    assert json.loads(line) | {"time": ""} == {
        "time": "",
        "level": "ERROR",
        "logger": "moldau.network",
        "kind": "partition changed",
        "node": 7,
        "topic": "t",
        "partition": 3,
        "epoch": 5,
        "message": 'two\nlines and a "quote"',
    }


def test_a_line_for_people_begins_with_time_and_level() -> None:
    record = kept(EventLog(ManualClock()), "it happened")
    record.created, record.msecs = 0.25, 250
    assert TextFormat(names_node=False).format(record) == "1970-01-01 00:00:00.250 ERROR it happened"


def test_a_node_of_several_says_which_one_it_is() -> None:
    record = kept(EventLog(ManualClock(), 7), "it happened")
    assert TextFormat(names_node=True).format(record).endswith(" ERROR [7] it happened")
    other = logging.LogRecord("moldau.other", logging.INFO, "", 0, "plain %s", ("text",), None)
    assert TextFormat(names_node=True).format(other).endswith(" INFO  plain text")


def test_lines_of_other_modules_are_written_too() -> None:
    record = logging.LogRecord("moldau.other", logging.INFO, "", 0, "plain %s", ("text",), None)
    assert json.loads(JsonFormat().format(record))["message"] == "plain text"
