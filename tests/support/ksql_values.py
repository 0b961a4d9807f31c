"""Calls of ksqlDB's functions and the values that ksqlDB gives.

The values are those of ksqlDB's documentation and of its own tests. `READ` has the functions whose values are neither
there nor there: they follow from what its source says about each argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time

from tests.support.ksql_numbers_and_texts import NAN, NUMBERS_AND_TEXTS

VALUES: Mapping[str, list[tuple[str, object]]] = {
    **NUMBERS_AND_TEXTS,
    # arrays and maps
    "ARRAY_CONCAT": [
        ("ARRAY_CONCAT(ARRAY[0, 0, 1], ARRAY[1, -2])", [0, 0, 1, 1, -2]),
        ("ARRAY_CONCAT(CAST(null AS ARRAY<INT>), ARRAY[1, -2])", [1, -2]),
        ("ARRAY_CONCAT(ARRAY[0, 3], CAST(null AS ARRAY<INT>))", [0, 3]),
        ("ARRAY_CONCAT(CAST(null AS ARRAY<INT>), CAST(null AS ARRAY<INT>))", None),
    ],
    "ARRAY_CONTAINS": [
        ("ARRAY_CONTAINS(ARRAY['Pink', null], 'Pink')", True),
        ("ARRAY_CONTAINS(ARRAY['Red', null], 'Pink')", False),
        ("ARRAY_CONTAINS(ARRAY['Red', null], CAST(null AS VARCHAR))", True),
        ("ARRAY_CONTAINS(CAST(null AS ARRAY<VARCHAR>), 'Pink')", False),
    ],
    "ARRAY_DISTINCT": [
        ("ARRAY_DISTINCT(ARRAY['apple', 'apple', null, 'cherry'])", ["apple", None, "cherry"]),
        ("ARRAY_DISTINCT(CAST(null AS ARRAY<INT>))", None),
    ],
    "ARRAY_EXCEPT": [
        ("ARRAY_EXCEPT(ARRAY['apple', 'apple', null, 'cherry'], ARRAY['cherry'])", ["apple", None]),
        ("ARRAY_EXCEPT(ARRAY[0, 0, 1, 0, -1], ARRAY[1, -2])", [0, -1]),
        ("ARRAY_EXCEPT(ARRAY[0], CAST(null AS ARRAY<INT>))", None),
    ],
    "ARRAY_INTERSECT": [
        ("ARRAY_INTERSECT(ARRAY[0, 0, 1, 0, -1], ARRAY[1, -2, 0])", [0, 1]),
        ("ARRAY_INTERSECT(CAST(null AS ARRAY<INT>), ARRAY[1])", None),
    ],
    "ARRAY_JOIN": [
        ("ARRAY_JOIN(ARRAY[true, null, false])", "true,null,false"),
        ("ARRAY_JOIN(ARRAY[1, 23, -42, 0], CAST(null AS VARCHAR))", "123-420"),
        ("ARRAY_JOIN(ARRAY['Hello', 'From', '', 'Ksqldb'], '_')", "Hello_From__Ksqldb"),
        ("ARRAY_JOIN(CAST(null AS ARRAY<VARCHAR>))", None),
    ],
    "ARRAY_LENGTH": [("ARRAY_LENGTH(ARRAY[1, 2, 3])", 3), ("ARRAY_LENGTH(CAST(null AS ARRAY<INT>))", None)],
    "ARRAY_MAX": [
        ("ARRAY_MAX(ARRAY[-1, 2, null, 0])", 2),
        ("ARRAY_MAX(ARRAY['Foo', 'Bar', null, 'baz'])", "baz"),
        ("ARRAY_MAX(CAST(null AS ARRAY<INT>))", None),
    ],
    "ARRAY_MIN": [("ARRAY_MIN(ARRAY[-1, 2, null, 0])", -1), ("ARRAY_MIN(ARRAY[false, null, true])", False)],
    "ARRAY_REMOVE": [
        ("ARRAY_REMOVE(ARRAY[1, 2, 3, 2, 1], 2)", [1, 3, 1]),
        ("ARRAY_REMOVE(ARRAY[false, null, true, true], false)", [None, True, True]),
        ("ARRAY_REMOVE(ARRAY['Foo', 'Bar', null, 'baz'], null)", ["Foo", "Bar", "baz"]),
        ("ARRAY_REMOVE(CAST(null AS ARRAY<INT>), 2)", None),
    ],
    "ARRAY_SORT": [
        ("ARRAY_SORT(ARRAY[-1, 2, null, 0])", [-1, 0, 2, None]),
        ("ARRAY_SORT(ARRAY['Foo', 'Bar', null, 'baz'], 'ASC')", ["Bar", "Foo", "baz", None]),
        ("ARRAY_SORT(ARRAY[-1, 2, null, 0], 'desc')", [2, 0, -1, None]),
        ("ARRAY_SORT(ARRAY[-1, 2, null, 0], CONCAT('DE', 'SC'))", [2, 0, -1, None]),
        ("ARRAY_SORT(CAST(null AS ARRAY<INT>))", None),
    ],
    "ARRAY_UNION": [
        ("ARRAY_UNION(ARRAY[1, 2, 3, 1, 2], ARRAY[4, 1])", [1, 2, 3, 4]),
        ("ARRAY_UNION(ARRAY[1], CAST(null AS ARRAY<INT>))", None),
    ],
    "AS_MAP": [
        ("AS_MAP(ARRAY['1', '2'], ARRAY['a', 'b'])", {"1": "a", "2": "b"}),
        ("AS_MAP(ARRAY['1', '2'], ARRAY[1, 2, 3])", {"1": 1, "2": 2}),
        ("AS_MAP(ARRAY['1', '2'], ARRAY[1])", {"1": 1, "2": None}),
        ("AS_MAP(CAST(null AS ARRAY<VARCHAR>), ARRAY[1])", None),
        ("AS_MAP(ARRAY['1'], CAST(null AS ARRAY<INT>))", None),
    ],
    "ENTRIES": [
        ("ENTRIES(MAP('b' := 2, 'a' := 1), true)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
        ("ENTRIES(MAP('b' := 2), false)", [{"K": "b", "V": 2}]),
        ("ENTRIES(CAST(null AS MAP<VARCHAR, INT>), true)", None),
    ],
    "MAP_KEYS": [("ARRAY_SORT(MAP_KEYS(MAP('foo' := 10, 'bar' := null)))", ["bar", "foo"])],
    "MAP_VALUES": [("ARRAY_SORT(MAP_VALUES(MAP('foo' := 10, 'bar' := null)))", [10, None])],
    "MAP_UNION": [
        (
            "MAP_UNION(MAP('apple' := 10, 'banana' := 20), MAP('apple' := 50))",
            {"apple": 50, "banana": 20},
        ),
        ("MAP_UNION(CAST(null AS MAP<VARCHAR, INT>), MAP('foo' := 1))", {"foo": 1}),
        ("MAP_UNION(MAP('foo' := 1), CAST(null AS MAP<VARCHAR, INT>))", {"foo": 1}),
        ("MAP_UNION(CAST(null AS MAP<VARCHAR, INT>), CAST(null AS MAP<VARCHAR, INT>))", None),
    ],
    "SLICE": [
        ("SLICE(ARRAY['a', 'b', 'c', 'd'], 2, 3)", ["b", "c"]),
        ("SLICE(ARRAY['a', 'b', 'c'], null, null)", ["a", "b", "c"]),
        ("SLICE(ARRAY['a', 'b', 'c'], 2, 2)", ["b"]),
        ("SLICE(ARRAY['a', 'b', 'c'], 2, 5)", None),
        ("SLICE(ARRAY['a', 'b', 'c'], 1 + 1, 3)", ["b", "c"]),
        ("SLICE(CAST(null AS ARRAY<INT>), 1, 2)", None),
    ],
    "FILTER": [
        ("FILTER(ARRAY[3, 6, 2, 10], x => x > 5)", [6, 10]),
        ("FILTER(ARRAY[5, null], x => x > 5)", []),
        ("FILTER(CAST(null AS ARRAY<INT>), x => x > 5)", None),
        ("FILTER(MAP('ab' := 6, 'abcd' := 15), (x, y) => len(x) * 5 > 15 AND y % 5 = 0)", {"abcd": 15}),
    ],
    "REDUCE": [
        ("REDUCE(ARRAY[3, 6], 2, (s, x) => s + x)", 11),
        ("REDUCE(ARRAY[5, null], 2, (s, x) => s + x)", None),
        ("REDUCE(CAST(null AS ARRAY<INT>), 2, (s, x) => s + x)", 2),
        ("REDUCE(ARRAY[1, 2], CAST(null AS INT), (s, x) => s + x)", None),
        ("REDUCE(ARRAY['to be or', null], '', (state, x) => concat(state, x))", "to be or"),
        (
            "REDUCE(MAP('123' := 3, '12' := 7, '1234' := 2), 0,"
            " (s, k, v) => CASE WHEN LEN(k) > 3 THEN s + v ELSE s - v END)",
            -8,
        ),
        ("REDUCE(CAST(null AS MAP<VARCHAR, INT>), 0, (s, k, v) => s + v)", 0),
    ],
    "TRANSFORM": [
        ("TRANSFORM(ARRAY[1, null, 3], x => x + 1)", [2, None, 4]),
        ("TRANSFORM(CAST(null AS ARRAY<INT>), x => x + 1)", None),
        ("TRANSFORM(MAP('test' := 3.21), (x, y) => UCASE(x), (x, y) => ROUND(y))", {"TEST": 3}),
        ("TRANSFORM(MAP('a' := 1), (k, v) => k + '_test', (k, v) => v + 1)", {"a_test": 2}),
    ],
    # JSON and URLs
    "EXTRACTJSONFIELD": [
        ('EXTRACTJSONFIELD(\'{"name": "cdc", "@type": "UDF"}\', \'$.name\')', "cdc"),
        ('EXTRACTJSONFIELD(\'{"name": "cdc", "@type": "UDF"}\', \'$.@type\')', "UDF"),
        ("EXTRACTJSONFIELD('{\"array\": [1.2345]}', '$.array[0]')", "1.2345"),
        ("EXTRACTJSONFIELD('{\"array\": [1, 2, 3]}', '$.array[-1]')", None),
        ("EXTRACTJSONFIELD('{\"array\": [1, 2, 3]}', '$.missing')", None),
        ("EXTRACTJSONFIELD(CAST(null AS VARCHAR), '$.name')", None),
    ],
    "IS_JSON_STRING": [
        ("IS_JSON_STRING('[1, 2, 3]')", True),
        ("IS_JSON_STRING('1')", True),
        ("IS_JSON_STRING('null')", True),
        ("IS_JSON_STRING('')", False),
        ("IS_JSON_STRING('abc')", False),
        ("IS_JSON_STRING(CAST(null AS VARCHAR))", False),
    ],
    "JSON_ARRAY_CONTAINS": [
        ("JSON_ARRAY_CONTAINS('[\"Pink\", null]', 'Pink')", True),
        ("JSON_ARRAY_CONTAINS('[2147483647, {\"ab\": null}, 1, 2, 3, null, [4], 4]', 3)", True),
        ("JSON_ARRAY_CONTAINS('[{}, \"abc\", null, [1]]', 1)", False),
        ("JSON_ARRAY_CONTAINS('[null]', CAST(null AS VARCHAR))", True),
        ("JSON_ARRAY_CONTAINS('[null]', 'null')", False),
        ("JSON_ARRAY_CONTAINS('[]', true)", False),
        ("JSON_ARRAY_CONTAINS('5', 5)", False),
        ("JSON_ARRAY_CONTAINS(CAST(null AS VARCHAR), 5)", False),
    ],
    "JSON_ARRAY_LENGTH": [
        ("JSON_ARRAY_LENGTH('[1, [1, [2]], 3]')", 3),
        ("JSON_ARRAY_LENGTH('[]')", 0),
        ("JSON_ARRAY_LENGTH('{}')", None),
        ("JSON_ARRAY_LENGTH('abc')", None),
        ("JSON_ARRAY_LENGTH(CAST(null AS VARCHAR))", None),
    ],
    "JSON_CONCAT": [
        ("JSON_CONCAT('{\"a\": 1}', '{\"b\": 2}')", '{"a":1,"b":2}'),
        ('JSON_CONCAT(\'{"a": {"5": 6}}\', \'{"a": {"3": 4}}\')', '{"a":{"3":4}}'),
        ("JSON_CONCAT('{}', '{}')", "{}"),
        ("JSON_CONCAT('[1, [2]]', '[[[3]], [[[4]]]]')", "[1,[2],[[3]],[[[4]]]]"),
        ("JSON_CONCAT('null', 'null')", "[null,null]"),
        ("JSON_CONCAT('[1, 2]', '{\"a\": 1}', '4')", '[1,2,{"a":1},4]'),
        ("JSON_CONCAT('abc', '[1]')", None),
        ("JSON_CONCAT(CAST(null AS VARCHAR), '[1]')", None),
    ],
    "JSON_ITEMS": [
        (
            'JSON_ITEMS(\'[{"type": "A", "timestamp": "2022-01-27"}, {"type": "B"}]\')',
            ['{"type":"A","timestamp":"2022-01-27"}', '{"type":"B"}'],
        ),
        ("JSON_ITEMS('[1, 2, 3]')", ["1", "2", "3"]),
        ("JSON_ITEMS('[]')", []),
        ("JSON_ITEMS('abc')", None),
        ("JSON_ITEMS(CAST(null AS VARCHAR))", None),
    ],
    "JSON_KEYS": [
        ('JSON_KEYS(\'{"Red": 3, "Green": 5}\')', ["Red", "Green"]),
        ("JSON_KEYS('{}')", []),
        ("JSON_KEYS('[]')", None),
        ("JSON_KEYS('123')", None),
        ("JSON_KEYS('')", None),
    ],
    "JSON_RECORDS": [
        ('JSON_RECORDS(\'{"Red": 3, "White": "Seven"}\')', {"Red": "3", "White": "Seven"}),
        ("JSON_RECORDS('{}')", {}),
        ("JSON_RECORDS('[]')", None),
        ("JSON_RECORDS('123')", None),
        ("JSON_RECORDS('abc')", None),
        ("JSON_RECORDS(CAST(null AS VARCHAR))", None),
    ],
    "TO_JSON_STRING": [
        ("TO_JSON_STRING(1)", "1"),
        ("TO_JSON_STRING('abc')", '"abc"'),
        ("TO_JSON_STRING(true)", "true"),
        ("TO_JSON_STRING(CAST(null AS INT))", "null"),
        ("TO_JSON_STRING(ARRAY[1, 2, 3])", "[1,2,3]"),
        ("TO_JSON_STRING(STRUCT(ID := 1, NAME := 'A'))", '{"ID":1,"NAME":"A"}'),
        ("TO_JSON_STRING(MAP('id' := ARRAY[1, 2]))", '{"id":[1,2]}'),
        ("TO_JSON_STRING(FROM_DAYS(1000))", '"1972-09-27"'),
        ("TO_JSON_STRING(FROM_UNIXTIME(60220000000))", '"1971-11-28T23:46:40.000"'),
        ("TO_JSON_STRING(TO_BYTES('IQ==', 'base64'))", '"IQ=="'),
    ],
    "URL_DECODE_PARAM": [
        ("URL_DECODE_PARAM('%3Ffoo+%24bar')", "?foo $bar"),
        ("URL_DECODE_PARAM('hello%26world')", "hello&world"),
        ("URL_DECODE_PARAM(CAST(null AS VARCHAR))", None),
    ],
    "URL_ENCODE_PARAM": [
        ("URL_ENCODE_PARAM('?foo $bar')", "%3Ffoo+%24bar"),
        ("URL_ENCODE_PARAM('hello&world')", "hello%26world"),
        ("URL_ENCODE_PARAM(CAST(null AS VARCHAR))", None),
    ],
    "URL_EXTRACT_FRAGMENT": [
        ("URL_EXTRACT_FRAGMENT('http://test.com#frag%20space')", "frag space"),
        ("URL_EXTRACT_FRAGMENT('http://www.nofragment.com')", None),
    ],
    "URL_EXTRACT_HOST": [
        ("URL_EXTRACT_HOST('http://www.test.com/?query#fragment')", "www.test.com"),
        ("URL_EXTRACT_HOST('http://test@confluent.io:8080')", "confluent.io"),
        ("URL_EXTRACT_HOST('http://257.1/bogus/[url')", None),
    ],
    "URL_EXTRACT_PARAMETER": [
        ("URL_EXTRACT_PARAMETER('http://test.com?a%20b=c%20d', 'a b')", "c d"),
        ("URL_EXTRACT_PARAMETER('http://www.test.com/?one=a&two=b&three', 'two')", "b"),
        ("URL_EXTRACT_PARAMETER('https://docs.confluent.io?foo%20bar=baz&blank#x', 'blank')", ""),
        ("URL_EXTRACT_PARAMETER('https://docs.confluent.io?foo%20bar=baz&blank#x', 'absent')", None),
    ],
    "URL_EXTRACT_PATH": [
        ("URL_EXTRACT_PATH('http://www.test.com?query#fragment')", ""),
        ("URL_EXTRACT_PATH('http://test@confluent.io:8080/nested/path?query&jobs')", "/nested/path"),
    ],
    "URL_EXTRACT_PORT": [
        ("URL_EXTRACT_PORT('http://test@confluent.io')", None),
        ("URL_EXTRACT_PORT('http://test@confluent.io:8080/nested/path?query&jobs')", 8080),
    ],
    "URL_EXTRACT_PROTOCOL": [
        ("URL_EXTRACT_PROTOCOL('https://test@confluent.io:8080/nested/path')", "https"),
        ("URL_EXTRACT_PROTOCOL('www.confluent.io')", None),
    ],
    "URL_EXTRACT_QUERY": [
        ("URL_EXTRACT_QUERY('http://test.com?a=foo%20bar&b=baz')", "a=foo bar&b=baz"),
        ("URL_EXTRACT_QUERY('http://test@confluent.io:8080/path')", None),
    ],
    # times
    "CONVERT_TZ": [
        ("UNIX_TIMESTAMP(CONVERT_TZ(FROM_UNIXTIME(100), '+0200', '+0500'))", 10800100),
        ("UNIX_TIMESTAMP(CONVERT_TZ(FROM_UNIXTIME(1589234313000), '+0200', '+0500'))", 1589245113000),
        (
            "UNIX_TIMESTAMP(CONVERT_TZ(FROM_UNIXTIME(1589234313000), 'America/Los_Angeles', 'America/New_York'))",
            1589245113000,
        ),
        ("CONVERT_TZ(CAST(null AS TIMESTAMP), 'UTC', 'Europe/London')", None),
    ],
    "DATEADD": [
        ("UNIX_DATE(DATEADD(DAYS, 10, FROM_DAYS(10)))", 20),
        ("UNIX_DATE(DATEADD(DAYS, -5, FROM_DAYS(2)))", -3),
        ("DATEADD(MILLISECONDS, 5, CAST(null AS DATE))", None),
    ],
    "DATESUB": [
        ("UNIX_DATE(DATESUB(DAYS, 10, FROM_DAYS(5)))", -5),
        ("UNIX_DATE(DATESUB(DAYS, -5, FROM_DAYS(5)))", 10),
        ("DATESUB(DAYS, CAST(null AS INT), FROM_DAYS(5))", None),
    ],
    "TIMEADD": [
        ("TIMEADD(MINUTES, 2, PARSE_TIME('00:01:05', 'HH:mm:ss'))", time(0, 3, 5)),
        ("TIMEADD(HOURS, 2, PARSE_TIME('23:00', 'HH:mm'))", time(1, 0)),
        ("TIMEADD(MILLISECONDS, CAST(null AS INT), PARSE_TIME('23:00', 'HH:mm'))", None),
    ],
    "TIMESUB": [
        ("TIMESUB(MILLISECONDS, 10, PARSE_TIME('00:00:00.005', 'HH:mm:ss.SSS'))", time(23, 59, 59, 995000)),
        ("TIMESUB(MILLISECONDS, CAST(null AS INT), PARSE_TIME('23:00', 'HH:mm'))", None),
    ],
    "TIMESTAMPADD": [
        ("UNIX_TIMESTAMP(TIMESTAMPADD(MILLISECONDS, 10, FROM_UNIXTIME(10)))", 20),
        ("UNIX_TIMESTAMP(TIMESTAMPADD(MILLISECONDS, -5, FROM_UNIXTIME(2)))", -3),
        ("TIMESTAMPADD(HOURS, 1, CAST(null AS TIMESTAMP))", None),
    ],
    "TIMESTAMPSUB": [
        ("UNIX_TIMESTAMP(TIMESTAMPSUB(SECONDS, 1, FROM_UNIXTIME(1010)))", 10),
        ("TIMESTAMPSUB(HOURS, 1, CAST(null AS TIMESTAMP))", None),
    ],
    "FORMAT_DATE": [
        ("FORMAT_DATE(FROM_DAYS(17662), 'yyyy-MM-dd')", "2018-05-11"),
        ("FORMAT_DATE(FROM_DAYS(18993), 'dd-MMM-yyyy')", "01-Jan-2022"),
        ("FORMAT_DATE(FROM_DAYS(-1), 'dd-MM-yyyy''Sophia''')", "31-12-1969Sophia"),
        ("FORMAT_DATE(CAST(null AS DATE), 'yyyy')", None),
    ],
    "FORMAT_TIME": [
        ("FORMAT_TIME(PARSE_TIME('00:01:05', 'HH:mm:ss'), 'HH_mm_ss_SSS')", "00_01_05_000"),
        ("FORMAT_TIME(PARSE_TIME('00:20:34', 'HH:mm:ss'), 'HHmmss''AAAAA''')", "002034AAAAA"),
        ("FORMAT_TIME(CAST(null AS TIME), 'HH:mm')", None),
    ],
    "FORMAT_TIMESTAMP": [
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(1526075913000), 'yyyy-MM-dd HH:mm:ss')", "2018-05-11 21:58:33"),
        (
            "FORMAT_TIMESTAMP(FROM_UNIXTIME(1526075913000), 'yyyy-MM-dd HH:mm:ss', 'America/Los_Angeles')",
            "2018-05-11 14:58:33",
        ),
        ("FORMAT_TIMESTAMP(CAST(null AS TIMESTAMP), 'yyyy')", None),
    ],
    "FROM_DAYS": [("FROM_DAYS(-10)", date(1969, 12, 22)), ("FROM_DAYS(CAST(null AS INT))", None)],
    "FROM_UNIXTIME": [
        ("FROM_UNIXTIME(1589234313000)", datetime(2020, 5, 11, 21, 58, 33, tzinfo=UTC)),
        ("FROM_UNIXTIME(CAST(null AS BIGINT))", None),
    ],
    "PARSE_DATE": [
        ("PARSE_DATE('2018-05-11Lit', 'yyyy-MM-dd''Lit''')", date(2018, 5, 11)),
        ("PARSE_DATE('01-Jan-2022', 'dd-MMM-yyyy')", date(2022, 1, 1)),
        ("IFNULL(CAST(PARSE_DATE('abcd', 'yyyy-MM-dd') AS VARCHAR), '1900-01-01')", "1900-01-01"),
        ("PARSE_DATE(CAST(null AS VARCHAR), 'yyyy')", None),
    ],
    "PARSE_TIME": [
        ("PARSE_TIME('00:01:05Lit', 'HH:mm:ss''Lit''')", time(0, 1, 5)),
        ("PARSE_TIME('11/05/19', 'HH/mm/ss')", time(11, 5, 19)),
        ("PARSE_TIME('01:00:00 PM', 'hh:mm:ss a')", time(13, 0)),
        ("PARSE_TIME(CAST(null AS VARCHAR), 'HH')", None),
    ],
    "PARSE_TIMESTAMP": [
        ("UNIX_TIMESTAMP(PARSE_TIMESTAMP('2018-05-11T21:58:33', 'yyyy-MM-dd''T''HH:mm:ss'))", 1526075913000),
        ("UNIX_TIMESTAMP(PARSE_TIMESTAMP('2018-05-11T21:58:33 PST', 'yyyy-MM-dd''T''HH:mm:ss zzz'))", 1526101113000),
        (
            "UNIX_TIMESTAMP(PARSE_TIMESTAMP('2018-05-11 14:58:33', 'yyyy-MM-dd HH:mm:ss', 'America/Los_Angeles'))",
            1526075913000,
        ),
        ("PARSE_TIMESTAMP('nothing', 'yyyy-MM-dd')", None),
        ("PARSE_TIMESTAMP(CAST(null AS VARCHAR), 'yyyy')", None),
    ],
    "UNIX_DATE": [
        ("UNIX_DATE() > 100", True),
        ("UNIX_DATE(FROM_DAYS(100))", 100),
        ("UNIX_DATE(CAST(null AS DATE))", None),
    ],
    "UNIX_TIMESTAMP": [
        ("UNIX_TIMESTAMP() > 1700000000000", True),
        ("UNIX_TIMESTAMP(FROM_UNIXTIME(1589234313000))", 1589234313000),
        ("UNIX_TIMESTAMP(CAST(null AS TIMESTAMP))", None),
    ],
    "DATETOSTRING": [("DATETOSTRING(17662, 'yyyy-MM-dd')", "2018-05-11")],
    "STRINGTODATE": [
        ("STRINGTODATE('2018-05-11Lit', 'yyyy-MM-dd''Lit''')", 17662),
        ("STRINGTODATE('01-Jan-2022', 'dd-MMM-yyyy')", 18993),
        ("MAP('boo' := STRINGTODATE('foo', 'yyyyMMdd'), 'shoe' := 3)", {"boo": None, "shoe": 3}),
    ],
    "STRINGTOTIMESTAMP": [
        ("STRINGTOTIMESTAMP('2018-05-11T21:58:33Z', 'yyyy-MM-dd''T''HH:mm:ssX')", 1526075913000),
        ("STRINGTOTIMESTAMP('2018-05-11 14:58:33', 'yyyy-MM-dd HH:mm:ss', 'America/Los_Angeles')", 1526075913000),
        ("STRINGTOTIMESTAMP('not a timestamp', 'yyyy-MM-dd')", None),
    ],
    "TIMESTAMPTOSTRING": [
        ("TIMESTAMPTOSTRING(1526075913000, 'yyyy-MM-dd HH:mm:ss')", "2018-05-11 21:58:33"),
        (
            "TIMESTAMPTOSTRING(1526075913000, 'yyyy-MM-dd HH:mm:ss', 'America/Los_Angeles')",
            "2018-05-11 14:58:33",
        ),
    ],
}
"""By function: expressions in the dialect `ksql`, and their values. -1, a NaN and so on are compared as numbers."""

SPELLING: list[tuple[str, object]] = [
    ("ARRAY['Red', 'Green'][1]", "Red"),
    ("ARRAY['Red', 'Green'][-1]", "Green"),
    ("ARRAY['Red', 'Green'][3]", None),
    ("ARRAY['Red', 'Green'][0]", None),
    ("MAP('expected' := 10)['expected']", 10),
    ("MAP('expected' := 10)['missing']", None),
    ("STRUCT(a := STRUCT(b := 7))->a->b", 7),
    ("ARRAY[STRUCT(d := 1)][1]->d", 1),
    ("MAP('key$Name[]' := STRUCT(c := ARRAY[STRUCT(d := 1)]))['key$Name[]']->c[1]->d", 1),
    ("'prefix-' + UCASE('s1') + '-postfix'", "prefix-S1-postfix"),
    ("'it''s a \\d'", "it's a \\d"),
    ("CASE WHEN 'a' <> 'b' THEN 1 ELSE 2 END", 1),
    ("1 IS DISTINCT FROM null", True),
    ("'a%b' LIKE 'a!%b' ESCAPE '!'", True),
    ("CAST('12' AS INT)", 12),
    ("CAST('no' AS INT)", None),
    ("CAST(10 AS DECIMAL(2, 1))", None),
    ("6 % 4 + 4", 6),
    ("NOT 4 > 11", True),
    ("CAST(STRUCT(a := 1) AS STRUCT<a VARCHAR>)->a", "1"),
]
"""Expressions that are no call of a function."""

ROWS = [(0, None, None), (1, 10, "one"), (2, 50, "two"), (3, 10, "one"), (4, 7, None), (5, None, "two")]
"""For aggregates: `row_offset`, `x` and `name`, in the order of the topic."""

AGGREGATED: Mapping[str, list[tuple[str, object]]] = {
    "ATTR": [("ATTR(x)", None), ("ATTR(CASE WHEN x IS NULL THEN 1 ELSE 1 END)", 1), ("ATTR(CAST(null AS INT))", None)],
    "AVG": [("AVG(x)", 19.25), ("AVG(CAST(null AS INT))", 0.0)],
    "COLLECT_LIST": [("ARRAY_SORT(COLLECT_LIST(x))", [7, 10, 10, 50, None, None])],
    "COLLECT_SET": [("ARRAY_SORT(COLLECT_SET(x))", [7, 10, 50, None])],
    "CORRELATION": [
        ("CORRELATION(x, x)", 1.0),
        ("CORRELATION(x, CAST(null AS INT))", NAN),
        ("CORRELATION(x, 1)", NAN),
    ],
    "COUNT": [("COUNT(x)", 4), ("COUNT(*)", 6)],
    "COUNT_DISTINCT": [("COUNT_DISTINCT(name)", 2)],
    "EARLIEST_BY_OFFSET": [
        ("EARLIEST_BY_OFFSET(x)", 10),
        ("EARLIEST_BY_OFFSET(x, false)", None),
        ("EARLIEST_BY_OFFSET(x, 2)", [10, 50]),
        ("EARLIEST_BY_OFFSET(x, 2, false)", [None, 10]),
    ],
    "LATEST_BY_OFFSET": [
        ("LATEST_BY_OFFSET(x)", 7),
        ("LATEST_BY_OFFSET(x, false)", None),
        ("LATEST_BY_OFFSET(x, 2)", [10, 7]),
        ("LATEST_BY_OFFSET(x, 2, false)", [7, None]),
        ("LATEST_BY_OFFSET(CAST(null AS INT))", None),
    ],
    "HISTOGRAM": [("HISTOGRAM(name)", {"one": 2, "two": 2})],
    "MAX": [("MAX(x)", 50), ("MAX(CAST(null AS INT))", None)],
    "MIN": [("MIN(x)", 7)],
    "STDDEV_SAMP": [("STDDEV_SAMP(x)", 422.25), ("STDDEV_SAMP(CASE WHEN x = 7 THEN 7 END)", 0.0)],
    "STDDEV_SAMPLE": [("STDDEV_SAMPLE(x)", 20.548722588034516), ("STDDEV_SAMPLE(CAST(null AS INT))", 0.0)],
    "SUM": [("SUM(x)", 77), ("SUM(CAST(null AS INT))", 0)],
    "SUM_LIST": [("SUM_LIST(ARRAY[x, null, 1])", 83.0), ("SUM_LIST(CAST(null AS ARRAY<INT>))", 0.0)],
    "TOPK": [
        ("TOPK(x, 3)", [50, 10, 10]),
        ("TOPK(name, 1)", ["two"]),
        ("TOPK(x, name, 1)", [{"sort_col": 50, "col0": "two"}]),
    ],
    "TOPKDISTINCT": [("TOPKDISTINCT(x, 2)", [50, 10]), ("TOPKDISTINCT(name, 3)", ["two", "one"])],
}
"""Aggregates over `ROWS`."""

EXPLODED: Mapping[str, list[tuple[str, list[object]]]] = {
    "EXPLODE": [
        ("EXPLODE(ARRAY[1, 2])", [1, 2]),
        ("EXPLODE(CAST(null AS ARRAY<INT>))", []),
        ("EXPLODE(TRANSFORM(ARRAY[STRUCT(f1 := 1)], x => x->f1))", [1]),
    ],
    "CUBE_EXPLODE": [
        ("CUBE_EXPLODE(ARRAY[1, 2])", [[None, None], [None, 2], [1, None], [1, 2]]),
        ("CUBE_EXPLODE(ARRAY[1, CAST(null AS INT)])", [[None, None], [1, None]]),
        ("CUBE_EXPLODE(CAST(null AS ARRAY<INT>))", []),
    ],
}
"""Functions that give rows."""

READ = frozenset(
    {"ATTR", "AVG", "ELT", "MASK_KEEP_RIGHT", "MASK_LEFT", "NULLIF", "RANDOM", "SUM_LIST", "TIMEADD", "TIMESTAMPSUB"}
)
"""Functions of which at least one value here follows from ksqlDB's source only."""
