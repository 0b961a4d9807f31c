"""Rates and buckets compared with those of Apache Kafka 4.3.1, whose answers to one sequence are recorded here."""

from __future__ import annotations

from moldau.core.quotas.rates import SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1_000)
LIMIT = 5_000.0
BUCKET_LIMIT = 3.0

# milliseconds since the row before, amount; then from Kafka's Rate: rate * 1000, window in ms, throttle in ms at 5,000
# a second; and from its TokenBucket (3 a second, row number mod 7 times 3 taken): throttle in ms
RECORDED = [
    (0, 500, 50000, 10000, 0, 0),
    (300, 1000, 145631, 10300, 0, 0),
    (700, 20000, 2150000, 10000, 0, 0),
    (999, 0, 1954723, 10999, 0, 0),
    (1, 70000, 9150000, 10000, 8300, 0),
    (1000, 10, 9151000, 10000, 8302, 1300),
    (250, 33333, 12179805, 10250, 14719, 7050),
    (3500, 90000, 19985395, 10750, 32219, 3550),
    (12000, 1, 100, 10000, 0, 0),
    (10, 50000, 4995105, 10010, 0, 0),
    (990, 50000, 10000100, 10000, 10000, 0),
    (500, 7, 9524571, 10500, 9502, 50),
    (11000, 123456, 12345600, 10000, 14691, 0),
    (1, 1, 12344466, 10001, 14690, 49),
    (2000, 1, 12344566, 10001, 14691, 0),
    (5000, 99999, 22343466, 10001, 34690, 0),
    (4000, 5, 10000500, 10000, 10001, 0),
    (100, 250000, 34653960, 10100, 59901, 0),
    (100, 1, 34314314, 10200, 59801, 0),
    (9999, 64, 24519070, 10199, 39815, 0),
]


def test_a_rate_is_kafkas() -> None:
    now_ms = 1_000_000
    rate = SampledRate(WINDOWS, now_ms)
    seen = []
    for gap_ms, amount, *_ in RECORDED:
        now_ms += gap_ms
        rate.record(amount, now_ms)
        value, elapsed_ms = rate.measure(now_ms)
        seen.append((round(value * 1_000), elapsed_ms, rate.throttle_ms(LIMIT, now_ms)))
    assert seen == [row[2:5] for row in RECORDED]


def test_a_bucket_is_kafkas() -> None:
    now_ms = 1_000_000
    bucket = TokenBucket(WINDOWS, now_ms)
    seen = []
    for index, (gap_ms, *_) in enumerate(RECORDED):
        now_ms += gap_ms
        bucket.take(index % 7 * 3, BUCKET_LIMIT, now_ms)
        seen.append(bucket.throttle_ms(BUCKET_LIMIT, now_ms))
    assert seen == [row[5] for row in RECORDED]


def test_what_was_used_is_forgotten_after_the_window() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.record(100_000, 0)
    assert rate.throttle_ms(LIMIT, 0) == 10_000
    assert rate.throttle_ms(LIMIT, 10_999) > 0
    assert rate.throttle_ms(LIMIT, 11_000) == 0


def test_what_is_taken_back_was_never_there() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.record(100_000, 0)
    rate.record(-100_000, 10)
    assert rate.throttle_ms(LIMIT, 10) == 0


def test_an_endless_wait_fits_into_an_answer() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.record(1e18, 0)
    assert rate.throttle_ms(1e-6, 0) == 2**31 - 1
