"""The client quotas of this broker, from the metadata, for `context.throttle`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.core.quotas.limits import IP, QuotaEntity, address_quotas, user_of
from moldau.core.quotas.rates import Windows
from moldau.core.quotas.usage import MutationQuota, QuotaUsage
from moldau.ports import Clock
from moldau.wire.protocol.api_keys import ApiKey

PRODUCE = int(ApiKey.PRODUCE)
FETCH = int(ApiKey.FETCH)


class BrokerQuotas:
    """One per broker. The dispatcher has it only while there are quotas: without them requests have no extra cost."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self._clock = clock
        self.windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1_000)
        self.usage = QuotaUsage(self.windows)
        self.addresses: dict[QuotaEntity, Mapping[str, float]] = {}
        """Quotas of IP addresses, which apply to connections."""
        self.throttled: dict[str, int] = {}
        """The number of throttled answers, by kind: Produce, Fetch, Request, ControllerMutation."""
        self.on_change: list[Callable[[BrokerQuotas], None]] = []
        """Called after each change."""

    @property
    def in_force(self) -> bool:
        """Whether any client has a quota."""
        return bool(self.usage.quotas)

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Takes over changed client quotas, and calls `on_change`."""
        if not delta.client_quotas:
            return
        quotas = image.client_quotas
        self.addresses = address_quotas(quotas)
        self.usage.quotas_changed({entity: values for entity, values in quotas.items() if entity[0][0] != IP})
        for callback in self.on_change:
            callback(self)

    # -- asked by the dispatcher and the contexts of requests

    def throttle_ms(self, principal: str, client_id: str, api_key: int, size: int) -> int:
        """Records the use of a request against its client's quotas; returns the longer of the two throttle times."""
        user = user_of(principal)
        now_ms = self._clock.monotonic_ms()
        usage = self.usage
        bytes_ms = 0
        if api_key == PRODUCE:
            bytes_ms = usage.produced(user, client_id, size, now_ms)
        elif api_key == FETCH:
            bytes_ms = usage.fetched(user, client_id, size, now_ms)
        request_ms = usage.request_throttle_ms(user, client_id, now_ms)
        if bytes_ms or request_ms:
            kind = "Request" if request_ms > bytes_ms else "Produce" if api_key == PRODUCE else "Fetch"
            self.count(kind)
            if api_key == FETCH:
                # a throttled answer is empty
                usage.not_fetched(user, client_id, size, now_ms)
        return max(bytes_ms, request_ms)

    def handled(self, principal: str, client_id: str, elapsed_ns: int) -> None:
        """Charges `elapsed_ns` of the loop to the client. Runs after the request, so the next request waits."""
        self.usage.handled(user_of(principal), client_id, elapsed_ns, self._clock.monotonic_ms())

    def max_fetch_bytes(self, principal: str, client_id: str) -> int | None:
        """The most bytes of one Fetch answer; None without a quota."""
        return self.usage.max_fetch_bytes(user_of(principal), client_id)

    def mutation_quota(self, principal: str, client_id: str, *, is_strict: bool) -> MutationQuota | None:
        """The quota of a request that creates or deletes partitions; None without a quota."""
        return self.usage.mutation_quota(user_of(principal), client_id, is_strict=is_strict)

    def count(self, kind: str) -> None:
        """Counts a throttled request. `kind`: the name of the quota, as in the metrics."""
        self.throttled[kind] = self.throttled.get(kind, 0) + 1
