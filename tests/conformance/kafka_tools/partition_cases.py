"""Cases of the tools for partitions: offsets, deleted records, log directories. See cases."""

from __future__ import annotations

from tests.conformance.kafka_tools.step import Step

_TOPICS = "kafka-topics --bootstrap-server {b}"
_FILLED = (
    Step(f"{_TOPICS} --create --topic {{p}}t --partitions 2", is_quiet=True),
    Step("produce {p}t 5", is_quiet=True),
)


def partition_files() -> dict[str, str]:
    """As `files` of cases: the input of kafka-delete-records."""
    return {
        "delete-records.json": (
            '{"partitions":[{"topic":"{p}r","partition":0,"offset":2},{"topic":"{p}r","partition":1,"offset":-1}],'
            '"version":1}'
        ),
        "delete-too-much.json": '{"partitions":[{"topic":"{p}r","partition":0,"offset":99}]}',
        "delete-unknown.json": '{"partitions":[{"topic":"{p}none","partition":0,"offset":1}],"version":1}',
        "delete-twice.json": (
            '{"partitions":[{"topic":"{p}r","partition":0,"offset":1},{"topic":"{p}r","partition":0,"offset":2}]}'
        ),
        **{
            f"delete-{name}.json": content if name in _NO_OBJECT else f'{{"partitions":{content}}}'
            for name, content in _UNCLEAR.items()
        },
    }


_NO_OBJECT = ("number", "list", "no-partitions", "version-text", "version-2")
_UNCLEAR = {
    "number": "5",
    "list": "[]",
    "no-partitions": "{}",
    "version-text": '{"version":"1","partitions":[]}',
    "version-2": '{"version":2,"partitions":[]}',
    "no-list": "5",
    "row-number": "[5]",
    "row-text": '["topic"]',
    "row-without": '[{"topic":"{p}r"}]',
    "topic-number": '[{"topic":5,"partition":0,"offset":1}]',
    "partition-text": '[{"topic":"{p}r","partition":"0","offset":1}]',
    "partition-large": '[{"topic":"{p}r","partition":99999999999,"offset":1}]',
    "partition-true": '[{"topic":"{p}r","partition":true,"offset":1}]',
    "offset-broken": '[{"topic":"{p}r","partition":0,"offset":4.5}]',
    "offset-null": '[{"topic":"{p}r","partition":0,"offset":null}]',
    "offset-large": '[{"topic":"{p}r","partition":0,"offset":99999999999999999999}]',
    "nothing": "[]",
}
"""Values that are not offsets, by the name of their file; `nothing` is not an error."""

_OFFSETS = "kafka-get-offsets --bootstrap-server {b}"
_DELETE_RECORDS = "kafka-delete-records --bootstrap-server {b}"
_LOG_DIRS = "kafka-log-dirs --bootstrap-server {b}"

PARTITIONS: dict[str, tuple[Step, ...]] = {
    "get-offsets": (
        *_FILLED,
        Step(f"{_TOPICS} --create --topic {{p}}u", is_quiet=True),
        Step("kafka-get-offsets"),
        Step("kafka-get-offsets --topic a", says=True),
        Step(f"{_OFFSETS} --topic {{p}}t"),
        Step(f"{_OFFSETS} --topic {{p}}."),
        Step(f"{_OFFSETS}", only_own=True),
        Step(f"{_OFFSETS} --exclude-internal-topics", only_own=True),
        Step(f"{_OFFSETS} --topic {{p}}none", says=True),
        Step(f"{_OFFSETS} --topic {{p}}t --partitions 0,7"),
        Step(f"{_OFFSETS} --topic {{p}}t --partitions x", says=True),
        Step(f"{_OFFSETS} --topic {{p}}t --partitions 77", says=True),
        Step(f"{_OFFSETS} --topic-partitions {{p}}t:0-1,{{p}}u"),
        Step(f"{_OFFSETS} --topic-partitions {{p}}t:1-"),
        Step(f"{_OFFSETS} --topic-partitions {{p}}t:-1"),
        Step(f"{_OFFSETS} --topic-partitions {{p}}t:x"),
        Step(f"{_OFFSETS} --topic-partitions a --topic b", says=True),
        Step(f"{_OFFSETS} --topic {{p}}t --time earliest"),
        Step(f"{_OFFSETS} --topic {{p}}t --time -2"),
        Step(f"{_OFFSETS} --topic {{p}}t --time max-timestamp"),
        Step(f"{_OFFSETS} --topic {{p}}t --time earliest-local"),
        Step(f"{_OFFSETS} --topic {{p}}t --time latest-tiered"),
        Step(f"{_OFFSETS} --topic {{p}}t --time earliest-pending-upload"),
        Step(f"{_OFFSETS} --topic {{p}}t --time 0"),
        Step(f"{_OFFSETS} --topic {{p}}t --time 9999999999999"),
        Step(f"{_OFFSETS} --topic {{p}}t --time xx", says=True),
    ),
    "delete-records": (
        Step(f"{_TOPICS} --create --topic {{p}}r --partitions 2", is_quiet=True),
        Step("produce {p}r 5", is_quiet=True),
        Step("kafka-delete-records"),
        Step(_DELETE_RECORDS, says=True),
        Step(f"{_DELETE_RECORDS} --offset-json-file {{tmp}}/delete-records.json", is_sorted=True),
        Step(f"{_OFFSETS} --topic {{p}}r --time earliest"),
        Step(f"{_DELETE_RECORDS} --offset-json-file {{tmp}}/delete-records.json", is_sorted=True),
        Step(f"{_DELETE_RECORDS} --offset-json-file {{tmp}}/delete-too-much.json"),
        Step(f"{_DELETE_RECORDS} --offset-json-file {{tmp}}/delete-twice.json", says=True),
        Step(f"{_DELETE_RECORDS} --offset-json-file {{tmp}}/not.json", says=True),
        Step(f"{_DELETE_RECORDS} --offset-json-file /nowhere", says=True),
    ),
    "delete-records-unclear": (
        Step(f"{_TOPICS} --create --topic {{p}}r", is_quiet=True),
        Step("produce {p}r 5", is_quiet=True),
        *(Step(f"{_DELETE_RECORDS} --offset-json-file {{tmp}}/delete-{name}.json", says=True) for name in _UNCLEAR),
        Step(f"{_OFFSETS} --topic {{p}}r --time earliest"),
    ),
    "lists-of-numbers": (
        *_FILLED,
        Step(f"{_TOPICS} --create --topic {{p}}u", is_quiet=True),
        *(
            Step(f"{_OFFSETS} --topic-partitions {{p}}t:{tail}", says=True)
            for tail in ("0,", "-", "2-1", "99999999999")
        ),
        Step(f"{_OFFSETS} --topic-partitions ,", says=True),
        Step(f"{_OFFSETS} --topic-partitions '{{p}}t:0, {{p}}u:0'"),
        Step(f"{_OFFSETS} --topic-partitions '{{p}}t:0 '", says=True),
        *(
            Step(f"{_OFFSETS} --topic {{p}}t --partitions '{text}'", says=True)
            for text in ("0,", "0,,1", "+1", " 0", "-1", "99999999999")
        ),
        *(
            Step(f"{_LOG_DIRS} --describe --topic-list {{p}}u --broker-list '{text}'", says=True)
            for text in ("1,1", "1,", ",1", " 1", "-1", "9,8", "99999999999")
        ),
    ),
    "log-dirs": (
        Step(f"{_TOPICS} --create --topic {{p}}t", is_quiet=True),
        Step("kafka-log-dirs"),
        Step(_LOG_DIRS, says=True),
        Step(f"{_LOG_DIRS} --describe --topic-list {{p}}t"),
        Step(f"{_LOG_DIRS} --describe --topic-list {{p}}t --broker-list 1"),
        Step(f"{_LOG_DIRS} --describe --topic-list {{p}}none"),
        Step(f"{_LOG_DIRS} --describe --broker-list 1,9", says=True),
        Step(f"{_LOG_DIRS} --describe --broker-list x", says=True),
    ),
}
