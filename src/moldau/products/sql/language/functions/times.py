"""Functions of dates, times and timestamps. They hold in a session whose time zone is UTC."""

from __future__ import annotations

from moldau.products.sql.language.functions.row import Call, Function, Refused

_UNITS = {
    unit: (one, nanoseconds)
    for one, nanoseconds in (
        ("DAY", 86_400_000_000_000),
        ("HOUR", 3_600_000_000_000),
        ("MINUTE", 60_000_000_000),
        ("SECOND", 1_000_000_000),
        ("MILLISECOND", 1_000_000),
    )
    for unit in (one, f"{one}S")
}
"""ksqlDB's units: the name in Spark, and the nanoseconds."""
_PATTERN = "a pattern with the letters of the week (`Y`, `w`, `e`) fails the query: Spark does not know them"


def _unit(call: Call) -> str:
    """The unit of the call, as ksqlDB spells it."""
    if call.words[0] not in _UNITS:
        raise Refused(f"{call.name} counts in DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS")
    return call.words[0]


def _moved(call: Call, template: str) -> str:
    amount = "@1" if call.name.endswith("ADD") else "-@1"
    return template.format(unit=_UNITS[_unit(call)][0], amount=amount)


def _time(call: Call) -> str:
    sign = "+" if call.name == "TIMEADD" else "-"
    microseconds = _UNITS[_unit(call)][1] // 1000
    return f"time_from_micros(pmod(time_to_micros(@2) {sign} CAST(@1 AS BIGINT) * {microseconds}, 86400000000))"


def _is_plural(call: Call) -> bool:
    return call.count == 3 and call.words[0] in _UNITS and call.words[0].endswith("S")


def _moving(name: str, template: str, example: str, *, in_spark: bool = False, differs: str = "") -> Function:
    return Function(
        name=name,
        examples=(example,),
        build=lambda call: _moved(call, template),
        least=3,
        most=3,
        in_spark=in_spark,
        differs=differs,
        own=_is_plural if in_spark else None,
    )


_PARSED = "try_to_timestamp(@0, @1)"
_ZONED = "to_utc_timestamp(try_to_timestamp(@0, @1), @2)"
_TEXT_WITHOUT_ZONE = f"{_PATTERN}; with a time zone as argument, the text has none"
_SHOWN = "date_format({}, @1)"
_SHOWN_IN_ZONE = "date_format(from_utc_timestamp({}, @2), @1)"
_ZONE_NAMES = f"{_PATTERN}; with a time zone, the letters of the zone (`z`, `X`) show UTC"

TIMES = (
    Function(
        name="CONVERT_TZ",
        examples=("CONVERT_TZ(time, 'UTC', 'Europe/London')",),
        forms={3: "from_utc_timestamp(to_utc_timestamp(@0, @1), @2)"},
        note="in the hours around a change of clocks it may differ by that change",
    ),
    _moving(
        "DATEADD",
        "CAST(timestampadd({unit}, {amount}, @2) AS DATE)",
        "DATEADD(DAYS, 2, day)",
        in_spark=True,
        differs="of a date it gives a timestamp",
    ),
    _moving("DATESUB", "CAST(timestampadd({unit}, {amount}, @2) AS DATE)", "DATESUB(DAYS, 2, day)"),
    Function(name="TIMEADD", examples=("TIMEADD(MINUTES, 2, time)",), build=_time, least=3, most=3),
    Function(name="TIMESUB", examples=("TIMESUB(MINUTES, 2, time)",), build=_time, least=3, most=3),
    _moving("TIMESTAMPADD", "timestampadd({unit}, {amount}, @2)", "TIMESTAMPADD(HOURS, 2, time)", in_spark=True),
    _moving("TIMESTAMPSUB", "timestampadd({unit}, {amount}, @2)", "TIMESTAMPSUB(HOURS, 2, time)"),
    Function(
        name="FORMAT_DATE",
        examples=("FORMAT_DATE(day, 'dd/MM/yyyy')",),
        forms={2: "date_format(@0, @1)"},
        note=_PATTERN,
    ),
    Function(
        name="FORMAT_TIME",
        examples=("FORMAT_TIME(time, 'HH:mm')",),
        forms={2: "date_format(timestamp_micros(time_to_micros(@0)), @1)"},
    ),
    Function(
        name="FORMAT_TIMESTAMP",
        examples=("FORMAT_TIMESTAMP(time, 'yyyy-MM-dd HH:mm')", "FORMAT_TIMESTAMP(time, pattern, 'Europe/London')"),
        forms={2: _SHOWN.format("@0"), 3: _SHOWN_IN_ZONE.format("@0")},
        note=_ZONE_NAMES,
    ),
    Function(name="FROM_DAYS", examples=("FROM_DAYS(days)",), forms={1: "date_from_unix_date(@0)"}),
    Function(
        name="FROM_UNIXTIME",
        examples=("FROM_UNIXTIME(milliseconds)",),
        forms={1: "timestamp_millis(@0)"},
        in_spark=True,
        differs="it takes seconds and gives a text",
    ),
    Function(
        name="PARSE_DATE", examples=("PARSE_DATE(text, 'yyyy-MM-dd')",), forms={2: "try_to_date(@0, @1)"}, note=_PATTERN
    ),
    Function(name="PARSE_TIME", examples=("PARSE_TIME(text, 'HH:mm')",), forms={2: "try_to_time(@0, @1)"}),
    Function(
        name="PARSE_TIMESTAMP",
        examples=("PARSE_TIMESTAMP(text, 'yyyy-MM-dd HH:mm')", "PARSE_TIMESTAMP(text, pattern, 'Europe/London')"),
        forms={2: _PARSED, 3: _ZONED},
        note=_TEXT_WITHOUT_ZONE,
    ),
    Function(
        name="UNIX_DATE",
        examples=("UNIX_DATE()", "UNIX_DATE(day)"),
        forms={0: "unix_date(current_date())", 1: "unix_date(@0)"},
        in_spark=True,
        own=lambda call: call.count == 0,
    ),
    Function(
        name="UNIX_TIMESTAMP",
        examples=("UNIX_TIMESTAMP()", "UNIX_TIMESTAMP(time)"),
        forms={0: "unix_millis(current_timestamp())", 1: "unix_millis(@0)"},
        in_spark=True,
        differs="it gives seconds, in ksqlDB milliseconds",
    ),
    Function(
        name="DATETOSTRING",
        examples=("DATETOSTRING(days, 'dd/MM/yyyy')",),
        forms={2: "date_format(date_from_unix_date(@0), @1)"},
        note=_PATTERN,
    ),
    Function(
        name="STRINGTODATE",
        examples=("STRINGTODATE(text, 'dd/MM/yyyy')",),
        forms={2: "unix_date(try_to_date(@0, @1))"},
        note=_PATTERN,
    ),
    Function(
        name="STRINGTOTIMESTAMP",
        examples=("STRINGTOTIMESTAMP(text, 'yyyy-MM-dd HH:mm')", "STRINGTOTIMESTAMP(text, pattern, 'Europe/London')"),
        forms={2: f"unix_millis({_PARSED})", 3: f"unix_millis({_ZONED})"},
        note=_TEXT_WITHOUT_ZONE,
    ),
    Function(
        name="TIMESTAMPTOSTRING",
        examples=(
            "TIMESTAMPTOSTRING(milliseconds, 'yyyy-MM-dd HH:mm')",
            "TIMESTAMPTOSTRING(milliseconds, pattern, 'Europe/London')",
        ),
        forms={2: _SHOWN.format("timestamp_millis(@0)"), 3: _SHOWN_IN_ZONE.format("timestamp_millis(@0)")},
        note=_ZONE_NAMES,
    ),
)
