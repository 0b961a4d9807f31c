"""Names of objects.

    PREFIX/TOPIC/field=value/year=2026/month=01/TOPIC+PARTITION+OFFSET+BATCH.parquet

OFFSET is that of the first record. BATCH is a digest of the connector's id and slot, and the number of the batch, which
are the same when the batch is repeated: its objects replace themselves.
Rows without topic, partition and offset have PART+NUMBER+BATCH, of the task of Spark and its objects.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from moldau.connectors.written_batch import WrittenBatch
from moldau.errors import MoldauError

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a value, as Hive and Spark name it."""
MAX_NAME_BYTES: Final = 1024
"""Of an object, by Amazon S3."""
GRANULARITIES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "none": (),
    "month": (("year", "%Y"), ("month", "%m")),
    "day": (("year", "%Y"), ("month", "%m"), ("day", "%d")),
    "hour": (("year", "%Y"), ("month", "%m"), ("day", "%d"), ("hour", "%H")),
}
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
"""As Hive escapes them."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class LayoutError(MoldauError):
    """A row that has no folder."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`time_field` empty: the record's timestamp."""

    prefix: str
    fields: Sequence[str]
    granularity: str
    time_field: str
    extension: str

    def folders(self, value: Any, timestamp: dt.datetime | None) -> str:
        """The folders below the topic, with a slash at the end. Raises LayoutError."""
        made = [f"{_escaped(name)}={_folder(name, _field(value, name))}" for name in self.fields]
        levels = GRANULARITIES[self.granularity]
        if levels:
            found = _field(value, self.time_field) if self.time_field else timestamp
            moment = _moment(self.time_field or "timestamp", found)
            made += [f"{name}={NULL if moment is None else moment.strftime(form)}" for name, form in levels]
        return "".join(f"{one}/" for one in made)

    def of_record(self, topic: str, folders: str, partition: int, offset: int, batch: WrittenBatch) -> str:
        return self._key(topic, folders, f"{_escaped(topic)}+{partition}+{offset:010}+{_tag(batch)}")

    def of_rows(self, folders: str, number: int, batch: WrittenBatch) -> str:
        return self._key("", folders, f"{batch.part}+{number:05}+{_tag(batch)}")

    def _key(self, topic: str, folders: str, name: str) -> str:
        parts = (self.prefix.strip("/"), _escaped(topic), folders.rstrip("/"), f"{name}.{self.extension}")
        key = "/".join(one for one in parts if one)
        if len(key.encode()) > MAX_NAME_BYTES:
            raise LayoutError(f"the name of an object has more than {MAX_NAME_BYTES} bytes: {key[:200]}")
        return key


def _tag(batch: WrittenBatch) -> str:
    return f"{hashlib.sha256(batch.query.encode()).hexdigest()[:8]}-{batch.batch}"


def _field(value: Any, path: str) -> Any:
    """A field of a row, or of a value without a schema. Points lead into structs."""
    for name in path.split("."):
        if value is None:
            return None
        if isinstance(value, Mapping):
            value = value.get(name)
        elif name in getattr(value, "__fields__", ()):
            value = value[name]
        else:
            raise LayoutError(f"the value has no field {path}")
    return value


def _folder(name: str, value: Any) -> str:
    match value:
        case None | "":
            return NULL
        case bool():
            return str(value).lower()
        case dt.datetime():
            return _escaped(value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S"))
        case str() | int() | float() | Decimal() | dt.date():
            return _escaped(str(value))
    raise LayoutError(f"the field {name} is {type(value).__name__}, which makes no folder")


def _moment(name: str, value: Any) -> dt.datetime | None:
    """Numbers are milliseconds since 1970, texts ISO 8601, in UTC where they have no zone."""
    try:
        match value:
            case None:
                return None
            case dt.datetime():
                return value.astimezone(dt.UTC)
            case dt.date():
                return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
            case int() if not isinstance(value, bool):
                return _EPOCH + dt.timedelta(milliseconds=value)
            case str():
                moment = dt.datetime.fromisoformat(value)
                return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        pass
    raise LayoutError(f"{name} is {str(value)[:100]!r}, which is no time")


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
