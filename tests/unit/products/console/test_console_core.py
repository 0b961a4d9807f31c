"""Foreign bytes as text, readable sizes, charts, rates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.products.console.core.shown import MAX_SHOWN_BYTES, show_bytes
from moldau.products.service.look.charts import draw, round_up
from moldau.products.service.look.history import MAX_SAMPLES, Growth, History, Series
from moldau.products.service.look.words import show_count, show_duration, show_rate, show_size, visible


@given(st.binary(max_size=6_000))
def test_any_bytes_are_shown_as_bounded_printable_text(data: bytes) -> None:
    shown = show_bytes(data)
    assert shown.size == len(data)
    assert len(shown.text) <= 10 * MAX_SHOWN_BYTES
    shown.text.encode("utf-8")
    assert all(character >= " " or character in "\n\t" for character in shown.text)


def test_json_text_binary_empty_and_null_are_told_apart() -> None:
    assert show_bytes(b'{"a": 1}').kind == "json"
    assert show_bytes(b'{"a": ').kind == "text"
    assert show_bytes("žluťoučký".encode()).text == "žluťoučký"
    assert show_bytes(b"\xff\xfe").text == "ff fe"
    assert show_bytes(b"\x00" * 9).kind == "binary"
    assert show_bytes(b"").kind == "empty"
    assert show_bytes(None).kind == "null"


def test_a_character_across_the_cut_does_not_make_a_text_binary() -> None:
    shown = show_bytes(("x" * (MAX_SHOWN_BYTES - 1) + "ž" * 10).encode())
    assert shown.kind == "text"
    assert shown.is_cut
    assert shown.text == "x" * (MAX_SHOWN_BYTES - 1)


def test_deep_nesting_is_no_crash() -> None:
    assert show_bytes(b"[" * 4_000).kind == "text"


def test_the_writing_direction_cannot_be_turned() -> None:
    assert visible("a\u202eb\u2066c\x1b[31m") == "a\\u202eb\\u2066c\\x1b[31m"


def test_numbers_for_people() -> None:
    assert [show_size(size) for size in (None, 0, 1_023, 1_536, 250 << 20)] == [
        "–",
        "0 B",
        "1023 B",
        "1.5 KiB",
        "250 MiB",
    ]
    durations = [show_duration(seconds) for seconds in (None, 0, 59, 60, 185, 7_800, 273_600)]
    assert durations == ["–", "0 s", "59 s", "1 min", "3 min 5 s", "2 h 10 min", "3 d 4 h"]
    assert [show_rate(rate) for rate in (None, 0.0, 0.4, 12.3, 12_345.0)] == ["–", "0", "0.4", "12", "12.3k"]
    assert show_count(1_234_567) == "1,234,567"


def test_a_rate_is_what_came_in_the_window_and_never_negative() -> None:
    series = Series()
    for second, value in ((0, 0), (2, 100), (4, 300), (6, 10)):
        series.add(float(second), float(value))
    assert series.rates() == [50.0, 100.0, 0.0]
    assert Series().rate() is None


def test_a_part_that_comes_late_or_was_away_is_no_traffic() -> None:
    growth = Growth()
    assert growth.add({"out": {"a": 10}}) == {"out": 0}
    assert growth.add({"out": {"a": 15, "late": 10_000_000}}) == {"out": 5}
    assert growth.add({"out": {"late": 10_000_001}}) == {"out": 6}
    assert growth.add({"out": {"a": 500, "late": 10_000_001}}) == {"out": 6}
    assert growth.add({"out": {"a": 3, "late": 10_000_001}}) == {"out": 6}, "a topic that was made anew"


def test_a_value_that_is_not_known_is_no_sample_and_its_series_stays() -> None:
    history = History()
    for second, lag in enumerate((4.0, None, 2.0)):
        history.add(float(second), {"lag": lag})
    assert history.get("lag").values() == [4.0, 2.0]


def test_what_is_no_longer_sampled_is_forgotten_and_the_rest_is_bounded() -> None:
    history = History()
    for second in range(2 * MAX_SAMPLES):
        history.add(float(second), {"a": float(second)} | ({"b": 1.0} if second == 0 else {}))
    assert list(history.series) == ["a"]
    assert len(history.get("a").samples) == MAX_SAMPLES
    assert history.get("b").last is None


@given(st.lists(st.floats(min_value=0, max_value=1e12), max_size=200))
def test_a_chart_stays_within_its_frame(values: list[float]) -> None:
    chart = draw(values, width=600, height=120, slots=30)
    for point in chart.line.split():
        x, y = map(float, point.split(","))
        assert -0.1 <= x <= 600.1
        assert 0 <= y <= 120
    assert bool(chart.line) == (len(values) >= 2)


def test_a_chart_of_zeros_has_no_axis_and_says_how_long_they_lasted() -> None:
    chart = draw([0.0] * 8, width=600, height=120, slots=30, span_s=14)
    assert (chart.top, chart.lasted, chart.since) == (0, "14 s", "58 s ago")
    assert draw([0.0, 1.0], width=600, height=120, span_s=120).lasted == "2 min"


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_an_axis_ends_at_a_round_number_above(value: float) -> None:
    top = round_up(value)
    assert value <= top * (1 + 1e-9)
    assert top <= value * 10 * (1 + 1e-9)
