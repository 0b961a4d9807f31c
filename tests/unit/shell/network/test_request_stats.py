"""Histograms over two windows, and the places of error codes in a response."""

from __future__ import annotations

from moldau.shell.network.request_stats import WINDOW_S, Histogram, RequestStats
from moldau.wire.protocol.error_codes import each_error_code, error_codes
from moldau.wire.protocol.messages.api_versions import ApiVersionsResponse
from moldau.wire.protocol.messages.metadata import MetadataResponse
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def test_quantiles_are_upper_bounds_of_the_step_that_holds_them() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    for value in [0.5] * 90 + [3.0] * 10:
        histogram.observe(value, 1.0)
    found = dict(histogram.quantiles())
    assert found["0.50"] == 1.0
    assert found["0.95"] == 4.0
    assert found["0.999"] == 4.0


def test_nothing_seen_is_zero() -> None:
    assert all(value == 0.0 for _, value in Histogram((1.0,)).quantiles())


def test_what_is_two_windows_old_no_longer_counts() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(2.0, 1.0 + WINDOW_S)
    histogram.observe(0.5, 2.0 + 2 * WINDOW_S)
    assert dict(histogram.quantiles())["0.99"] == 2.0
    histogram.observe(0.5, 3.0 + 3 * WINDOW_S)
    assert dict(histogram.quantiles())["0.99"] == 1.0


def test_error_codes_are_found_at_any_depth() -> None:
    partitions = (OffsetCommitResponsePartition(0, 0), OffsetCommitResponsePartition(1, 12))
    response = OffsetCommitResponse(topics=(OffsetCommitResponseTopic("t", partitions=partitions),))
    assert error_codes(response) == list(each_error_code(response)) == [0, 12]
    assert error_codes(ApiVersionsResponse(error_code=35)) == [35]


def test_an_answer_without_any_is_one_none() -> None:
    assert error_codes(MetadataResponse()) == list(each_error_code(MetadataResponse())) == [0]


def test_the_rest_of_a_count_never_decreases() -> None:
    whole, part, rest = RequestStats(1), RequestStats(1), RequestStats(1)
    found = []
    for of_whole, of_part in ((2, 0), (2, 1), (4, 1)):
        whole.count = whole.by_version[1] = of_whole
        part.count = part.by_version[1] = of_part
        rest.count_rest(whole, part)
        found.append((rest.count, rest.by_version))
    assert found == [(2, [0, 2]), (2, [0, 2]), (3, [0, 3])]
