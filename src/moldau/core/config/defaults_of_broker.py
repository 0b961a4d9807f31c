"""Topic and group settings that default to a broker setting."""

from __future__ import annotations

from moldau.core.config.broker_settings import ROWS_BY_NAME
from moldau.core.config.setting import TopicSettingRow

OF_BROKER = "of the broker"
"""Marks the default of a topic or group setting that is a broker setting, see `with_defaults_of_broker`."""

_UNITS_MS = {"minutes": 60_000, "hours": 3_600_000}


def with_defaults_of_broker(rows: tuple[TopicSettingRow, ...]) -> tuple[TopicSettingRow, ...]:
    """`rows` of topics or groups; the default OF_BROKER is replaced by that of the broker setting."""
    return tuple(
        (name, kind, _default_of(fallbacks) if default == OF_BROKER else default, valid, fallbacks, served, note)
        for name, kind, default, valid, fallbacks, served, note in rows
    )


def _default_of(names: tuple[str, ...]) -> str | None:
    """The default of the first of these broker settings that has one; minutes and hours as milliseconds."""
    name = next(name for name in names if ROWS_BY_NAME[name][2] is not None)
    text = ROWS_BY_NAME[name][2] or ""
    unit_ms = _UNITS_MS.get(name.rpartition(".")[2])
    return text if unit_ms is None else str(int(text) * unit_ms)
