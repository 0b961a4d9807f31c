"""docs/reference/settings.md equals the tables of settings, and these equal Apache Kafka 4.4's."""

from __future__ import annotations

from pathlib import Path

from moldau.core.config.broker_setting_rows import HIDDEN_BROKER_SETTINGS
from moldau.core.config.broker_settings import BROKER_SETTING_ROWS
from moldau.core.config.group_setting_rows import CLIENT_METRICS_ROWS, GROUP_SETTING_ROWS, HIDDEN_GROUP_SETTINGS
from moldau.core.config.reference_page import settings_page
from moldau.core.config.setting import CLUSTER_WIDE, IGNORED, PER_BROKER, READ_ONLY, TYPE_CODES
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page()


def test_every_setting_of_kafka_is_there_once() -> None:
    kafka = [row for row in BROKER_SETTING_ROWS if not row[0].startswith("moldau.")]
    assert len(kafka) == 382
    assert len({row[0] for row in BROKER_SETTING_ROWS}) == len(BROKER_SETTING_ROWS)
    assert len([row for row in TOPIC_SETTING_ROWS if row[0] != "internal.segment.bytes"]) == 37
    assert len(GROUP_SETTING_ROWS) == 27
    assert len(HIDDEN_GROUP_SETTINGS) == 6
    assert [row[0] for row in CLIENT_METRICS_ROWS] == ["interval.ms", "match", "metrics"]


def test_scopes_are_kafkas() -> None:
    """246 read-only, 67 cluster-wide and 37 per broker are described; 29 are internal, 3 rates are dynamic only."""
    described = [row for row in BROKER_SETTING_ROWS if row[0] not in HIDDEN_BROKER_SETTINGS]
    scopes = [row[4] for row in described if not row[0].startswith("moldau.")]
    counts = [scopes.count(scope) for scope in (READ_ONLY, CLUSTER_WIDE, PER_BROKER)]
    assert counts == [246, 67, 37 + 3]
    assert len(HIDDEN_BROKER_SETTINGS) == 29


def test_what_is_ignored_says_why() -> None:
    silent = [row[0] for row in (*BROKER_SETTING_ROWS, *TOPIC_SETTING_ROWS) if row[5] == IGNORED and not row[6]]
    assert not silent


def test_every_type_has_a_code() -> None:
    rows = (*BROKER_SETTING_ROWS, *TOPIC_SETTING_ROWS, *GROUP_SETTING_ROWS, *CLIENT_METRICS_ROWS)
    assert {row[1] for row in rows} <= set(TYPE_CODES)
