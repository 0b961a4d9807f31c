"""The use of quotas by clients, and their throttle times.

As in Apache Kafka, a request is executed and answered at once, and the response tells the client how long to wait. Only
changes of topics are rejected, because the protocol has an error for it (KIP-599).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

import msgspec

from moldau.core.quotas.limits import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    Share,
    client_limit,
)
from moldau.core.quotas.rates import SampledRate, TokenBucket, Windows
from moldau.errors import kafka_error

MAX_METERS = 10_000
"""The most clients whose use is remembered. Above it, the least recently used one is forgotten."""

Key = TypeVar("Key")
Meter = TypeVar("Meter", SampledRate, TokenBucket)


class QuotaUsage:
    """One for each broker. `quotas`: those in force."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.quotas: ClientQuotas = {}
        self._rates: OrderedDict[tuple[str, Share], SampledRate] = OrderedDict()
        """Least recently used first."""

    def quotas_changed(self, quotas: ClientQuotas) -> None:
        """Takes new quotas. The counted use stays."""
        self.quotas = quotas

    def produced(self, user: str, client_id: str, size: int, now_ms: int) -> int:
        """A produce request of `size` bytes came. Returns the milliseconds to wait."""
        return self._used(PRODUCER_BYTE_RATE, user, client_id, size, now_ms)

    def fetched(self, user: str, client_id: str, size: int, now_ms: int) -> int:
        """The response to a fetch has `size` bytes. Returns the milliseconds to wait. If not 0, do not send it; its
        bytes do not count (`not_fetched`)."""
        return self._used(CONSUMER_BYTE_RATE, user, client_id, size, now_ms)

    def not_fetched(self, user: str, client_id: str, size: int, now_ms: int) -> None:
        """Takes back `size` bytes that were charged and not sent."""
        self._used(CONSUMER_BYTE_RATE, user, client_id, -size, now_ms)

    def max_fetch_bytes(self, user: str, client_id: str) -> int | None:
        """The largest response that fits in a window; None without a quota."""
        found = client_limit(self.quotas, CONSUMER_BYTE_RATE, user, client_id)
        if found is None:
            return None
        return int(found[0] * (self.windows.count - 1) * self.windows.size_ms / 1_000)

    def handled(self, user: str, client_id: str, elapsed_ns: int, now_ms: int) -> None:
        """A request took `elapsed_ns` of the loop: percents of a second."""
        self._used(REQUEST_PERCENTAGE, user, client_id, elapsed_ns * 100 / 1_000_000_000, now_ms)

    def request_throttle_ms(self, user: str, client_id: str, now_ms: int) -> int:
        """The throttle time for the CPU time of requests; as in Kafka at most one sample."""
        return min(self.windows.size_ms, self._used(REQUEST_PERCENTAGE, user, client_id, 0, now_ms))

    def mutation_quota(self, user: str, client_id: str, *, is_strict: bool) -> MutationQuota | None:
        """The quota for requests that create or delete partitions; None without one."""
        found = client_limit(self.quotas, CONTROLLER_MUTATION_RATE, user, client_id)
        if found is None:
            return None
        return MutationQuota(found[1], found[0], is_strict)

    def _used(self, quota: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        found = client_limit(self.quotas, quota, user, client_id)
        if found is None:
            return 0
        limit, share = found
        key = (quota, share)
        rate = _used_now(self._rates, key)
        if rate is None:
            rate = _added(self._rates, key, SampledRate(self.windows, now_ms))
        if amount:
            rate.record(amount, now_ms)
        return rate.throttle_ms(limit, now_ms)


def _used_now(meters: OrderedDict[Key, Meter], key: Key) -> Meter | None:
    meter = meters.get(key)
    if meter is not None:
        meters.move_to_end(key)
    return meter


def _added(meters: OrderedDict[Key, Meter], key: Key, meter: Meter) -> Meter:
    """Adds a meter in constant time: clients with ever new names must not cost more than others."""
    if len(meters) >= MAX_METERS:
        meters.popitem(last=False)
    meters[key] = meter
    return meter


class MutationQuota(msgspec.Struct, frozen=True):
    """The quota for creating and deleting partitions: `limit` a second, shared by its clients. Strict: a request is
    rejected if the bucket is negative. Else it is executed, and its client waits."""

    share: Share
    limit: float
    is_strict: bool


class MutationBuckets:
    """The use of mutation quotas by clients. One for each controller; a new controller begins at zero."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._buckets: OrderedDict[Share, TokenBucket] = OrderedDict()

    def charge(self, quota: MutationQuota, now_ms: int) -> MutationCharge:
        """Begins to charge one request. `now_ms`: steady time."""
        bucket = _used_now(self._buckets, quota.share)
        if bucket is None:
            bucket = _added(self._buckets, quota.share, TokenBucket(self._windows, now_ms))
        return MutationCharge(bucket, quota, now_ms)


class MutationCharge:
    """The charge of one request, taken at once when the request is decided."""

    __slots__ = ("_bucket", "_is_refused", "_now_ms", "_quota", "_taken", "_tokens")

    def __init__(self, bucket: TokenBucket, quota: MutationQuota, now_ms: int) -> None:
        self._bucket = bucket
        self._quota = quota
        self._now_ms = now_ms
        self._tokens = bucket.tokens(quota.limit, now_ms)
        self._taken = 0
        self._is_refused = False

    def take(self, partitions: int) -> None:
        """Charges `partitions`. Raises THROTTLING_QUOTA_EXCEEDED and charges nothing."""
        if self._quota.is_strict and self._tokens < self._taken:
            self._is_refused = True
            raise kafka_error("THROTTLING_QUOTA_EXCEEDED")
        self._taken += partitions

    def settle(self) -> int:
        """Takes the charge, and returns the milliseconds that the client must wait."""
        limit = self._quota.limit
        self._bucket.take(self._taken, limit, self._now_ms)
        waits = self._is_refused if self._quota.is_strict else self._taken > 0
        return self._bucket.throttle_ms(limit, self._now_ms) if waits else 0
