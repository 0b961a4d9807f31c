"""Functions of texts and bytes."""

from __future__ import annotations

from moldau.products.sql.language.functions.row import MANY, Call, Function, Refused, same

_MASKS = "'X', 'x', 'n', '-'"
_TO_BINARY = {
    "hex": "try_to_binary(regexp_replace(@0, '^0x|^[xX]\\'|\\'$', ''), 'hex')",
    "utf8": "encode(@0, 'UTF-8')",
    "ascii": "encode(regexp_replace(@0, '[^\\\\x00-\\\\x7F]', '?'), 'US-ASCII')",
    "base64": "try_to_binary(@0, 'base64')",
}
_FROM_BINARY = {
    "hex": "hex({})",
    "utf8": "make_valid_utf8(CAST({} AS STRING))",
    "ascii": "regexp_replace(decode({}, 'ISO-8859-1'), '[^\\\\x00-\\\\x7F]', '\\uFFFD')",
    "base64": "base64({})",
}
"""Bytes outside of the encoding become replacement characters; Spark's decode fails the query."""


def _encoding(call: Call, place: int) -> str:
    named = call.texts[place]
    if named is None or named.lower() not in _TO_BINARY:
        raise Refused(f"{call.name} takes an encoding as a string: 'hex', 'utf8', 'ascii' or 'base64'")
    return named.lower()


def _encode(call: Call) -> str:
    source, target = _encoding(call, 1), _encoding(call, 2)
    if source == target:
        raise Refused(f"ENCODE from '{source}' to '{target}' changes nothing: write the text itself")
    if (source, target) == ("utf8", "ascii"):
        return "lower(hex(encode(@0, 'UTF-8')))"
    written = _FROM_BINARY[target].format(_TO_BINARY[source])
    return f"lower({written})" if target == "hex" else written


def _substring(call: Call) -> str:
    place = call.numbers[1]
    start = "@1" if place is not None and place >= 0 else "greatest(@1, -length(@0))"
    if call.words[1] == "NULL":
        start = "@1"
    return f"substring(@0, {start}, @2)" if call.count == 3 else f"substring(@0, {start})"


def _instr(call: Call) -> str:
    if call.count == 2:
        return "coalesce(instr(@0, @1), 0)"
    nth = "@3 - 1" if call.count == 4 else "0"
    ahead = _found("sequence(1, length(@0))", "_i >= @2", nth) if call.count == 4 else "coalesce(locate(@1, @0, @2), 0)"
    back = _found("sequence(length(@0), 1)", "_i <= length(@0) + @2 - length(@1) + 2", nth)
    place = call.numbers[2]
    if place is None:
        return f"if(@2 < 0, {back}, {ahead})"
    return back if place < 0 else ahead


def _found(places: str, within: str, nth: str) -> str:
    return f"coalesce(get(filter({places}, _i -> {within} AND startswith(substring(@0, _i), @1)), {nth}), 0)"


def quoted_pattern(text: str) -> str:
    """A regular expression, as a string of Spark SQL, that matches this text."""
    pattern = "".join(rf"\{one}" if one in r"\.^$|?*+()[]{}" else one for one in text)
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return "'" + escaped.replace("@", "\\u0040") + "'"  # `@` begins an argument in a template


def _split(call: Call) -> str:
    text = call.texts[1]
    if text is not None:
        return f"split(@0, {quoted_pattern(text)})"
    return r"split(@0, concat('\\Q', @1, '\\E'))"


def _split_to_map(call: Call) -> str:
    entries, pair = call.texts[1], call.texts[2]
    if entries == "" or pair == "" or "NULL" in call.words[1:]:
        raise Refused("SPLIT_TO_MAP gives null without delimiters: give two strings with at least one character")
    listed = f"split(@0, {quoted_pattern(entries)})" if entries is not None else r"split(@0, concat('\\Q', @1, '\\E'))"
    made = (
        f"map_from_entries(transform(filter({listed}, _e -> contains(_e, @2)), "
        "_e -> struct(split_part(_e, @2, 1), split_part(_e, @2, 2))))"
    )
    return made if entries is not None and pair is not None else f"if(@1 <> '' AND @2 <> '', {made}, NULL)"


def _pad(call: Call) -> str:
    length, pad = call.numbers[1], call.texts[2]
    made = f"{call.name.lower()}(@0, @1, @2)"
    return made if length is not None and length >= 0 and pad else f"if(@1 >= 0 AND length(@2) > 0, {made}, NULL)"


def _part_masked(masked: str, kept_before: str, kept_after: str) -> dict[int, str]:
    """The forms of a function that masks a part of a text."""

    def form(masks: str) -> str:
        parts = (kept_before, f"mask({masked}, {masks})", kept_after)
        return f"concat({', '.join(part for part in parts if part)})"

    return {2: form(_MASKS), 6: form("@2, @3, @4, @5")}


def _char(call: Call) -> str:
    text = call.texts[0]
    if text is None:
        letter = "decode(unhex(lpad(hex(@0), 8, '0')), 'UTF-32')"
        return f"if(@0 BETWEEN 0 AND 55295 OR @0 BETWEEN 57344 AND 1114111, {letter}, NULL)"
    try:
        value = text.encode("ascii").decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16")
    except ValueError:
        value = ""
    if len(text) < 6 or not text.startswith("\\u") or len(value) != 1:
        return "CAST(NULL AS STRING)"
    return f"'\\U{ord(value):08x}'"


_SIGNED = "conv(concat(if(substring({0}, 1, 1) >= '8', 'FFFFFFFF', ''), {0}), 16, -10)"
_BITS = "java_method('java.lang.Double', 'longBitsToDouble', CAST(conv({0}, 16, -10) AS BIGINT))"
_BIG, _LITTLE = "hex(@0)", "reverse(regexp_replace(hex(@0), '(.)(.)', '$2$1'))"


def _from_bytes(length: int, made: str) -> dict[str, str]:
    return {
        order: f"if(length(@0) = {length}, {made.format(digits)}, NULL)"
        for order, digits in (("BIG_ENDIAN", _BIG), ("LITTLE_ENDIAN", _LITTLE))
    }


_NUMBERS = {
    "INT_FROM_BYTES": _from_bytes(4, f"CAST({_SIGNED} AS INT)"),
    "BIGINT_FROM_BYTES": _from_bytes(8, "CAST(conv({0}, 16, -10) AS BIGINT)"),
    "DOUBLE_FROM_BYTES": _from_bytes(8, f"CAST({_BITS} AS DOUBLE)"),
}


def _number_of_bytes(call: Call) -> str:
    order = "BIG_ENDIAN" if call.count == 1 else call.texts[1]
    if order not in ("BIG_ENDIAN", "LITTLE_ENDIAN"):
        raise Refused(f"{call.name} takes the order of bytes as a string: 'BIG_ENDIAN' or 'LITTLE_ENDIAN'")
    return _NUMBERS[call.name][order]


TEXTS = (
    Function(
        name="CHR",
        examples=("CHR(code)", "CHR('\\u004b')"),
        build=_char,
        least=1,
        most=1,
        in_spark=True,
        differs="it knows the first 256 characters only",
        note="a code in a column is a number; as text (`\\u004b`) it is a literal",
    ),
    Function(
        name="CONCAT",
        examples=("CONCAT(a, b, c)",),
        build=lambda call: "concat_ws('', @*)",
        least=1,
        most=MANY,
        in_spark=True,
        differs="one null makes all null, in ksqlDB nulls are left out",
        note="for bytes, write Spark's concat in a statement of the default dialect",
    ),
    same("CONCAT_WS", "CONCAT_WS(separator, a, b)", note="for texts; bytes become a text"),
    Function(
        name="ENCODE",
        examples=("ENCODE(text, 'hex', 'utf8')", "ENCODE(text, 'utf8', 'base64')"),
        build=_encode,
        least=3,
        most=3,
        in_spark=True,
        differs="it takes a text and a character set, and gives bytes",
        own=lambda call: call.count == 3,
        note="from 'utf8' to 'ascii' it gives hexadecimal digits, as in ksqlDB",
    ),
    Function(
        name="FROM_BYTES",
        examples=("FROM_BYTES(bytes, 'base64')",),
        build=lambda call: _FROM_BINARY[_encoding(call, 1)].format("@0"),
        least=2,
        most=2,
    ),
    Function(
        name="TO_BYTES",
        examples=("TO_BYTES(text, 'hex')",),
        build=lambda call: _TO_BINARY[_encoding(call, 1)],
        least=2,
        most=2,
    ),
    same("INITCAP", "INITCAP(text)", note="words end at spaces, in ksqlDB at tabs and line ends too"),
    Function(
        name="INSTR",
        examples=("INSTR(text, part)", "INSTR(text, part, 3)", "INSTR(text, part, -3, 2)"),
        build=_instr,
        least=2,
        most=4,
        in_spark=True,
        differs="it takes two arguments, and null gives null, in ksqlDB 0",
        own=lambda call: call.count > 2,
    ),
    same("LCASE", "LCASE(text)"),
    same("LEN", "LEN(text)", note="counts characters, ksqlDB counts UTF-16 units"),
    Function(
        name="LPAD",
        examples=("LPAD(text, length, pad)", "LPAD(text, 5, '0')"),
        build=_pad,
        least=3,
        most=3,
        in_spark=True,
        differs="with an empty pad or a negative length it gives a text, in ksqlDB null",
    ),
    Function(
        name="RPAD",
        examples=("RPAD(text, length, pad)", "RPAD(text, 5, ' ')"),
        build=_pad,
        least=3,
        most=3,
        in_spark=True,
        differs="with an empty pad or a negative length it gives a text, in ksqlDB null",
    ),
    Function(
        name="MASK",
        examples=("MASK(text)", "MASK(text, 'X', 'x', 'n', '-')"),
        forms={1: f"mask(@0, {_MASKS})", 5: "mask(@0, @1*)"},
        in_spark=True,
        differs="characters that are neither letters nor digits stay, in ksqlDB they become `-`",
    ),
    Function(
        name="MASK_KEEP_LEFT",
        examples=("MASK_KEEP_LEFT(text, n)", "MASK_KEEP_LEFT(text, n, 'X', 'x', 'n', '-')"),
        forms=_part_masked("substring(@0, @1 + 1)", "left(@0, @1)", ""),
    ),
    Function(
        name="MASK_KEEP_RIGHT",
        examples=("MASK_KEEP_RIGHT(text, n)", "MASK_KEEP_RIGHT(text, n, 'X', 'x', 'n', '-')"),
        forms=_part_masked("left(@0, length(@0) - @1)", "", "right(@0, @1)"),
    ),
    Function(
        name="MASK_LEFT",
        examples=("MASK_LEFT(text, n)", "MASK_LEFT(text, n, 'X', 'x', 'n', '-')"),
        forms=_part_masked("left(@0, @1)", "", "substring(@0, @1 + 1)"),
    ),
    Function(
        name="MASK_RIGHT",
        examples=("MASK_RIGHT(text, n)", "MASK_RIGHT(text, n, 'X', 'x', 'n', '-')"),
        forms=_part_masked("right(@0, @1)", "left(@0, length(@0) - @1)", ""),
    ),
    same("MD5", "MD5(text)"),
    same("REPLACE", "REPLACE(text, old, new)", note="an empty text is not replaced"),
    Function(
        name="REGEXP_EXTRACT",
        examples=("REGEXP_EXTRACT(pattern, text)", "REGEXP_EXTRACT(pattern, text, 2)"),
        forms={
            2: "get(regexp_extract_all(@1, @0, 0), 0)",
            3: "get(regexp_extract_all(@1, @0, @2), 0)",
        },
        in_spark=True,
        differs="the text comes first and the pattern second, it gives group 1, and no match gives ''",
        note="a group that the pattern does not have fails the query, in ksqlDB it gives null",
    ),
    Function(
        name="REGEXP_EXTRACT_ALL",
        examples=("REGEXP_EXTRACT_ALL(pattern, text)", "REGEXP_EXTRACT_ALL(pattern, text, 2)"),
        forms={2: "regexp_extract_all(@1, @0, 0)", 3: "regexp_extract_all(@1, @0, @2)"},
        in_spark=True,
        differs="the text comes first and the pattern second, and it gives group 1",
        note="a group that the pattern does not have fails the query, in ksqlDB it gives null",
    ),
    same("REGEXP_REPLACE", "REGEXP_REPLACE(text, pattern, new)"),
    Function(
        name="REGEXP_SPLIT_TO_ARRAY",
        examples=("REGEXP_SPLIT_TO_ARRAY(text, pattern)",),
        forms={2: "split(@0, @1)"},
    ),
    Function(
        name="SPLIT",
        examples=("SPLIT(text, '.')", "SPLIT(text, delimiter)"),
        build=_split,
        least=2,
        most=2,
        in_spark=True,
        differs="the delimiter is a regular expression",
        note="for texts; to split bytes, split their text",
    ),
    Function(
        name="SPLIT_TO_MAP",
        examples=("SPLIT_TO_MAP(text, ',', '=')",),
        build=_split_to_map,
        least=3,
        most=3,
    ),
    Function(
        name="SUBSTRING",
        examples=("SUBSTRING(text, 2)", "SUBSTRING(text, place, length)"),
        build=_substring,
        least=2,
        most=3,
        in_spark=True,
        differs="a negative place before the first character shortens the result",
    ),
    Function(
        name="TRIM",
        examples=("TRIM(text)",),
        forms={1: r"regexp_replace(@0, '^[\\x00-\\x20]+|[\\x00-\\x20]+$', '')"},
        in_spark=True,
        differs="it removes spaces only, in ksqlDB tabs and line ends too",
    ),
    same("UCASE", "UCASE(text)"),
    Function(
        name="UUID",
        examples=("UUID()", "UUID(bytes)"),
        forms={
            0: "uuid()",
            1: "if(length(@0) = 16, regexp_replace(lower(hex(@0)), "
            "'(.{8})(.{4})(.{4})(.{4})(.{12})', '$1-$2-$3-$4-$5'), NULL)",
        },
        in_spark=True,
        differs="an argument is the seed of random numbers",
    ),
    *(
        Function(
            name=name,
            examples=(f"{name}(bytes)", f"{name}(bytes, 'LITTLE_ENDIAN')"),
            build=_number_of_bytes,
            least=1,
            most=2,
        )
        for name in _NUMBERS
    ),
)
