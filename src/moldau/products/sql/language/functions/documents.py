"""Functions of JSON texts and URLs."""

from __future__ import annotations

from moldau.products.sql.language.functions.row import MANY, Call, Function, same

_VALUE = "try_parse_json({})"
_LIST = "try_variant_get(try_parse_json(@0), '$', 'ARRAY<VARIANT>')"


def _concat(call: Call) -> str:
    """Objects are merged; anything else becomes one list. A text that is no JSON makes all null."""
    values = [_VALUE.format(f"@{place}") for place in range(call.count)]
    objects = ", ".join(f"try_variant_get({value}, '$', 'MAP<STRING, VARIANT>')" for value in values)
    lists = ", ".join(
        f"if({value} IS NULL, NULL, coalesce(try_variant_get({value}, '$', 'ARRAY<VARIANT>'), array({value})))"
        for value in values
    )
    return f"coalesce(to_json(map_concat({objects})), to_json(concat({lists})))"


def _decoded(part: str) -> str:
    """A part of a URL without percent signs. A plus stays: it means a blank in forms only."""
    return f"try_url_decode(replace(try_parse_url(@0, '{part}'), '+', '%2B'))"


DOCUMENTS = (
    Function(
        name="EXTRACTJSONFIELD",
        examples=("EXTRACTJSONFIELD(text, '$.log.cloud')",),
        forms={2: "get_json_object(@0, @1)"},
        note="of a JSON null it gives null, in ksqlDB the text `null`; a number loses zeros at its end",
    ),
    Function(name="IS_JSON_STRING", examples=("IS_JSON_STRING(text)",), forms={1: "(try_parse_json(@0) IS NOT NULL)"}),
    Function(
        name="JSON_ARRAY_CONTAINS",
        examples=("JSON_ARRAY_CONTAINS(text, value)",),
        forms={
            2: f"coalesce(exists({_LIST}, _e -> concat('[', to_json(_e), ']') = "
            "to_json(array(@1), map('ignoreNullFields', 'false'))), false)",
        },
    ),
    same("JSON_ARRAY_LENGTH", "JSON_ARRAY_LENGTH(text)"),
    Function(
        name="JSON_CONCAT",
        examples=("JSON_CONCAT(a, b)",),
        build=_concat,
        least=1,
        most=MANY,
        note="keys are sorted, and numbers are written as Spark's VARIANT writes them",
    ),
    Function(
        name="JSON_ITEMS",
        examples=("JSON_ITEMS(text)",),
        forms={
            1: f"zip_with(from_json(@0, 'ARRAY<STRING>'), {_LIST}, "
            "(_e, _i) -> if(schema_of_variant(_i) = 'STRING', to_json(_i), coalesce(_e, 'null')))",
        },
    ),
    Function(name="JSON_KEYS", examples=("JSON_KEYS(text)",), forms={1: "json_object_keys(@0)"}),
    Function(
        name="JSON_RECORDS",
        examples=("JSON_RECORDS(text)",),
        forms={1: "from_json(@0, 'MAP<STRING, STRING>')"},
        note="a JSON null becomes null, in ksqlDB the text `null`",
    ),
    Function(
        name="TO_JSON_STRING",
        examples=("TO_JSON_STRING(value)",),
        forms={
            1: r"regexp_replace(to_json(array(@0), map('ignoreNullFields', 'false', 'timestampFormat', "
            r"'yyyy-MM-dd\'T\'HH:mm:ss.SSS')), '^\\[|\\]$', '')",
        },
        note="fields keep their order, in ksqlDB they are sorted",
    ),
    Function(name="URL_DECODE_PARAM", examples=("URL_DECODE_PARAM(text)",), forms={1: "try_url_decode(@0)"}),
    Function(name="URL_ENCODE_PARAM", examples=("URL_ENCODE_PARAM(text)",), forms={1: "url_encode(@0)"}),
    Function(name="URL_EXTRACT_FRAGMENT", examples=("URL_EXTRACT_FRAGMENT(url)",), forms={1: _decoded("REF")}),
    Function(name="URL_EXTRACT_HOST", examples=("URL_EXTRACT_HOST(url)",), forms={1: "try_parse_url(@0, 'HOST')"}),
    Function(
        name="URL_EXTRACT_PARAMETER",
        examples=("URL_EXTRACT_PARAMETER(url, name)",),
        forms={
            2: f"get(transform(filter(split({_decoded('QUERY')}, '&'), _e -> split_part(_e, '=', 1) = @1), "
            "_e -> substring(_e, length(@1) + 2)), 0)",
        },
    ),
    Function(name="URL_EXTRACT_PATH", examples=("URL_EXTRACT_PATH(url)",), forms={1: _decoded("PATH")}),
    Function(
        name="URL_EXTRACT_PORT",
        examples=("URL_EXTRACT_PORT(url)",),
        forms={
            1: r"try_cast(get(regexp_extract_all(try_parse_url(@0, 'AUTHORITY'), ':([0-9]+)$', 1), 0) AS INT)",
        },
    ),
    Function(
        name="URL_EXTRACT_PROTOCOL", examples=("URL_EXTRACT_PROTOCOL(url)",), forms={1: "try_parse_url(@0, 'PROTOCOL')"}
    ),
    Function(name="URL_EXTRACT_QUERY", examples=("URL_EXTRACT_QUERY(url)",), forms={1: _decoded("QUERY")}),
)
