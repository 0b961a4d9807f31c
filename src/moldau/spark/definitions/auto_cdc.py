"""`create_auto_cdc_flow` for a pipeline's module, which replaces that of `pyspark.pipelines`.

Spark's own function converts its arguments to Spark Connect columns, which needs grpc and a Spark Connect server. The
targets of a pipeline take SQL, so here the arguments become texts. For `col` and `expr` of `pyspark.sql.functions`,
these are the texts of the calls.
"""

from __future__ import annotations

import re

import msgspec
from pyspark.sql import Column

from moldau.errors import MoldauError
from moldau.spark.definitions.late_session import ColumnText


class DefinedChanges(msgspec.Struct, frozen=True):
    """The changes of `source` go to the output `target`. `keys`: the keys of a pipeline's target. `line`: of the
    call."""

    target: str
    source: str
    keys: dict[str, object]
    has_settings: bool
    line: int = 0


def create_auto_cdc_flow(
    target: str,
    source: str,
    keys: list[str] | list[Column],
    sequence_by: str | Column,
    apply_as_deletes: str | Column | None = None,
    column_list: list[str] | list[Column] | None = None,
    except_column_list: list[str] | list[Column] | None = None,
    stored_as_scd_type: int | str | None = None,
    name: str | None = None,
    *,
    track_history_column_list: list[str] | list[Column] | None = None,
    track_history_except_column_list: list[str] | list[Column] | None = None,
    spark_conf: dict[str, str] | None = None,
) -> DefinedChanges:
    """The arguments of the call. `name` has no effect, because nothing reads it. Raises MoldauError."""
    if stored_as_scd_type is not None and str(stored_as_scd_type) not in ("1", "2"):
        raise MoldauError(f"`stored_as_scd_type` must be 1 or 2, not {stored_as_scd_type!r}")
    if not keys:
        raise MoldauError("`keys` must name a column")
    words: dict[str, object] = {
        "mode": "update",
        "key": _columns("keys", keys),
        "sequence_by": _sql("sequence_by", sequence_by),
    }
    if apply_as_deletes is not None:
        words["apply_as_deletes"] = _sql("apply_as_deletes", apply_as_deletes)
    if str(stored_as_scd_type) == "2":
        words["stored_as_scd_type"] = 2
    lists = {
        "column_list": column_list,
        "except_column_list": except_column_list,
        "track_history_column_list": track_history_column_list,
        "track_history_except_column_list": track_history_except_column_list,
    }
    words |= {word: _columns(word, columns) for word, columns in lists.items() if columns}
    return DefinedChanges(_text("target", target), _text("source", source), words, bool(spark_conf))


def _columns(word: str, columns: object) -> list[str]:
    """The columns' names. Raises MoldauError."""
    if not isinstance(columns, list):
        raise MoldauError(f"`{word}` of create_auto_cdc_flow must be a list of texts or columns")
    return [_name(word, one.text if isinstance(one, ColumnText) else _text(word, one)) for one in columns]


def _sql(word: str, value: object) -> str:
    """Raises MoldauError."""
    if not isinstance(value, ColumnText):
        return _text(word, value)
    if value.function == "expr" or re.fullmatch(r"[A-Za-z_]\w*", value.text):
        return value.text
    # in `col`, all characters but these are part of a name
    return re.sub("[^`.]+", lambda part: f"`{part[0]}`", value.text) if "`" not in value.text else value.text


def _text(word: str, value: object) -> str:
    """Raises MoldauError."""
    if not isinstance(value, str):
        raise MoldauError(
            f"`{word}` of create_auto_cdc_flow is no text but a {type(value).__name__}: write the text of the column, "
            'such as "version" for col("version") and "op = \'d\'" for expr("op = \'d\'")'
        )
    return value


def _name(word: str, text: str) -> str:
    """The name of the column that Spark finds by the text: backticks are quotes, and a dot outside of them is not part
    of a name. Raises MoldauError."""
    quoted = re.fullmatch("`((?:[^`]|``)+)`", text)
    if quoted is not None:
        return quoted[1].replace("``", "`")
    if "." in text or "`" in text:
        raise MoldauError(f"`{word}` must name columns, not {text!r}: a name with a dot stands in backticks")
    return text
