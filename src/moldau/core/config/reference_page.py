"""docs/reference/settings.md, written from the tables of settings: `python -m moldau.core.config.reference_page`."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.core.config.broker_alteration import CHANGED_BY_A_RESTART, REPLICATION_RATES
from moldau.core.config.broker_setting_rows import HIDDEN_BROKER_SETTINGS
from moldau.core.config.broker_settings import BROKER_SETTING_ROWS
from moldau.core.config.group_setting_rows import CLIENT_METRICS_ROWS, GROUP_SETTING_ROWS
from moldau.core.config.setting import (
    CLUSTER_WIDE,
    HONOURED,
    IGNORED,
    NOT_SERVED,
    PER_BROKER,
    READ_ONLY,
    SettingRow,
    TopicSettingRow,
)
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS

_OWN = "moldau."
_HEAD = """# Settings

Written from the tables in `src/moldau/core/config`; a test fails where this page is old. To write it again:

    python -m moldau.core.config.reference_page > docs/reference/settings.md

Every setting of Apache Kafka 4.4 is known here by its name, type, default and range, and is one of these:

- **honoured**: it acts as in Apache Kafka.
- **ignored**: it is accepted, stored and shown, and has no effect; the table gives the reason.
- **not served yet**: the feature that it steers does not exist yet. A value is accepted, stored and shown, and has no
  effect; the start logs a notice. Only a listener's own setting (`listener.name.NAME.`) cannot change while the node
  runs (42).
- **refused**: not served yet, and to start without it could lose data or admit clients that it refuses, so the node
  does not start with it.

The first of these that has a value counts: the topic's own setting; the dynamic setting of this broker; the dynamic
setting of all brokers; the file or the command line; the default. A change acts at once and survives a restart.

*Changes* says how a setting changes: "start": by a restart only; "all brokers": while running, for one broker or for
all; "one broker": while running, for one broker.
"""


def settings_page() -> str:
    """The whole page docs/reference/settings.md."""
    topics = (row for row in TOPIC_SETTING_ROWS)
    brokers = sorted(row for row in BROKER_SETTING_ROWS if not row[0].startswith(_OWN))
    own = sorted(row for row in BROKER_SETTING_ROWS if row[0].startswith(_OWN))
    return "\n".join(
        (
            _HEAD,
            f"## Topics ({len(TOPIC_SETTING_ROWS)})\n",
            "An empty `cleanup.policy` keeps everything for ever.\n",
            *_topic_table(topics),
            f"\n## Brokers: Kafka's ({len(brokers)})\n",
            *_counts(brokers),
            *_broker_table(brokers),
            f"\n## Brokers: our own ({len(own)})\n",
            *_broker_table(own),
            f"\n## Groups ({len(GROUP_SETTING_ROWS)})\n",
            *_topic_table(GROUP_SETTING_ROWS),
            f"\n## Client metrics subscriptions ({len(CLIENT_METRICS_ROWS)})\n",
            *_topic_table(CLIENT_METRICS_ROWS),
            "",
        )
    )


def _counts(rows: Iterable[SettingRow]) -> list[str]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[5]] = counts.get(row[5], 0) + 1
    return [", ".join(f"{counts[served]} {served}" for served in sorted(counts)) + ".\n"]


def _topic_table(rows: Iterable[TopicSettingRow]) -> list[str]:
    lines = ["| setting | type | default | valid | falls back to | here |", "|---|---|---|---|---|---|"]
    for name, kind, default, valid, fallbacks, served, note in sorted(rows):
        cells = (f"`{name}`", kind, _default(default), _cell(valid), ", ".join(fallbacks), _here(served, note))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _broker_table(rows: Iterable[SettingRow]) -> list[str]:
    lines = ["| setting | type | default | valid | changes | here |", "|---|---|---|---|---|---|"]
    for name, kind, default, valid, scope, served, note in rows:
        cells = (f"`{name}`", kind, _default(default), _cell(valid), _changes(name, scope), _here(served, note))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _changes(name: str, scope: str) -> str:
    if scope == READ_ONLY or name in CHANGED_BY_A_RESTART:
        return "start (internal)" if name in HIDDEN_BROKER_SETTINGS else "start"
    if name in REPLICATION_RATES:
        return "all brokers"
    return {CLUSTER_WIDE: "all brokers", PER_BROKER: "one broker"}[scope]


def _here(served: str, note: str) -> str:
    if served == HONOURED:
        return f"honoured; {_cell(note)}" if note else "honoured"
    if served in (IGNORED, NOT_SERVED):
        return f"{served}: {_cell(note)}" if note else served
    return f"**{served}**: {_cell(note)}" if note else f"**{served}**"


def _default(default: str | None) -> str:
    if default is None:
        return "none"
    return f"`{_cell(default)}`" if default else '""'


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(settings_page(), end="")  # noqa: T201 - the page goes where the caller points it
