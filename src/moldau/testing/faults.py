"""`cluster.faults`: faults that a test requests, and a log of their effects."""

from __future__ import annotations

import fnmatch
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Literal

import msgspec

from moldau.errors import ERROR_CODES, ERROR_NAMES
from moldau.testing.tracebacks import hides
from moldau.types import nearest
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey

__tracebackhide__ = hides

When = Literal["before", "after"]
Kind = Literal["pass", "drop", "delay", "error", "disconnect", "disk_full"]
Apis = str | Sequence[str]

MAX_LOGGED = 100_000
ALL_APIS = "*"
MAX_RANDOM_DELAY_MS = 50

# transient errors of each API, all of which clients retry
_PASSING_ERRORS: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "NOT_LEADER_OR_FOLLOWER",
    ApiKey.FETCH: "NOT_LEADER_OR_FOLLOWER",
    ApiKey.LIST_OFFSETS: "NOT_LEADER_OR_FOLLOWER",
    ApiKey.FIND_COORDINATOR: "COORDINATOR_NOT_AVAILABLE",
    ApiKey.OFFSET_COMMIT: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.OFFSET_FETCH: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.JOIN_GROUP: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.SYNC_GROUP: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.HEARTBEAT: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.INIT_PRODUCER_ID: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.ADD_PARTITIONS_TO_TXN: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.ADD_OFFSETS_TO_TXN: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.TXN_OFFSET_COMMIT: "COORDINATOR_LOAD_IN_PROGRESS",
    ApiKey.END_TXN: "COORDINATOR_LOAD_IN_PROGRESS",
}


class Happened(msgspec.Struct, frozen=True):
    """A fault that took effect. `at_ms`: by the cluster's clock. `api` is "" for the disk."""

    kind: Kind
    api: str
    at_ms: int
    client_id: str = ""
    detail: str = ""
    """The name of the error, the milliseconds of a delay, "before" or "after", or the path of a write."""
    topics: tuple[str, ...] = ()
    """The topics in the request, if the fault has a selector that needs them."""


Names = tuple[tuple[str, ...], str | None]
"""Topics and group of a request."""


class RequestFacts:
    """The properties by which a request is selected. Parts that need decoding are decoded on first use."""

    def __init__(self, api_key: ApiKey, client_id: str, names: Callable[[], Names]) -> None:
        self.api_key = api_key
        self.client_id = client_id
        self._names = names
        self._known: Names | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics in the request, decoded on first use."""
        return self._all_names()[0]

    @property
    def group(self) -> str | None:
        """The group in the request, or None."""
        return self._all_names()[1]

    def _all_names(self) -> Names:
        if self._known is None:
            self._known = self._names()
        return self._known


class Action(msgspec.Struct, frozen=True):
    """The effect of a fault on one request."""

    kind: Kind
    when: When = "before"
    delay_ms: int = 0
    error_name: str = ""

    def check(self) -> None:
        """Raises ValueError for an invalid argument."""
        if self.when not in ("before", "after"):
            raise ValueError(f"when={self.when!r}: the values are 'before' and 'after'")
        if self.kind == "delay" and self.delay_ms < 0:
            raise ValueError(f"ms={self.delay_ms}: the least delay is 0 ms")

    @property
    def detail(self) -> str:
        """The text for Happened: the name of the error, the milliseconds of a delay, or "before" or "after"."""
        if self.kind == "error":
            return self.error_name
        return f"{self.delay_ms} ms {self.when}" if self.kind == "delay" else self.when


class Fault:
    """One requested fault. As a context manager it ends with the block."""

    def __init__(
        self,
        faults: Faults,
        action: Action | None,
        *,
        api: Apis = ALL_APIS,
        times: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: the least count is 1; None means always")
        if action is not None:
            action.check()
        self._faults = faults
        self._action = action
        self._api_keys = api_keys(api)
        _check_selectors(self._api_keys, topic, group)
        self._times_left = times
        self._client_id = client_id
        self._topic = topic
        self._group = group
        self.happened: list[Happened] = []
        """Its effects, oldest first."""

    def __repr__(self) -> str:
        """The text in a failed assertion."""
        kind = "skip" if self._action is None else f"{self._action.kind} {self._action.detail}"
        requests = "*" if self._api_keys is None else ", ".join(api_name(key) for key in self._api_keys)
        return f"<Fault {kind} of {requests}, happened: {self.times_happened}>"

    @property
    def times_happened(self) -> int:
        """The number of times that it took effect."""
        return len(self.happened)

    @property
    def is_over(self) -> bool:
        """Whether it has taken effect as often as requested."""
        return self._times_left == 0

    def cancel(self) -> None:
        """Ends the fault. It takes no further effect."""
        self._faults._remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    # -- for the injector, under the lock of Faults

    def matches(self, facts: RequestFacts) -> bool:
        """Whether the fault selects this request."""
        if self._api_keys is not None and facts.api_key not in self._api_keys:
            return False
        if self._client_id is not None and not fnmatch.fnmatchcase(facts.client_id, self._client_id):
            return False
        if self._topic is not None and not any(fnmatch.fnmatchcase(name, self._topic) for name in facts.topics):
            return False
        return self._group is None or fnmatch.fnmatchcase(facts.group or "", self._group)

    def take(self, facts: RequestFacts) -> Action | None:
        """Counts this request and returns the action for it, if the fault selects it."""
        if self.is_over or not self.matches(facts):
            return None
        action = self._choose(facts)
        if action is not None and self._times_left is not None:
            self._times_left -= 1
        return action

    def _choose(self, facts: RequestFacts) -> Action | None:
        return self._action

    @property
    def wants_names(self) -> bool:
        """Whether the fault selects by topic."""
        return self._topic is not None


class RandomFaults(Fault):
    """Random faults for a share of the requests. With the same seed, the nth request of an API gets the same fault."""

    def __init__(self, faults: Faults, *, seed: int, rate: float, kinds: tuple[Kind, ...], api: Apis | None) -> None:
        names = [key.name for key in _PASSING_ERRORS if key in API_VERSIONS] if api is None else api
        super().__init__(faults, None, api=names)
        self._seed = seed
        self._rate = rate
        self._kinds = kinds
        self._counts: dict[ApiKey, int] = {}

    def _choose(self, facts: RequestFacts) -> Action | None:
        number = self._counts[facts.api_key] = self._counts.get(facts.api_key, 0) + 1
        random = Random(f"{self._seed}/{facts.api_key.name}/{number}")
        if random.random() >= self._rate:
            return None
        kind = random.choice(self._kinds)
        when: When = "after" if random.randrange(2) else "before"
        if kind == "error":
            name = _PASSING_ERRORS.get(facts.api_key)
            return Action("disconnect", when) if name is None else Action("error", error_name=name)
        return Action(kind, when, delay_ms=random.randint(1, MAX_RANDOM_DELAY_MS) if kind == "delay" else 0)


class _Steps(ABC):
    """The methods that add a fault of requests, shared by Faults and Script."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    @abstractmethod
    def _arm(self, fault: Fault) -> None:
        """Makes the fault take effect from now on."""

    def _add(
        self,
        action: Action,
        api: Apis,
        times: int | None,
        client_id: str | None,
        topic: str | None,
        group: str | None,
    ) -> Fault:
        fault = Fault(self._faults, action, api=api, times=times, client_id=client_id, topic=topic, group=group)
        self._arm(fault)
        return fault

    def drop(
        self,
        api: Apis,
        *,
        times: int | None = 1,
        when: When = "before",
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Loses the request: it is not executed, and neither it nor any later request on its connection is answered.

        The connection stays open and silent, as in a broken network, until the client's request timeout, after which it
        opens another. With `when="after"` the request is executed and only the response is lost.
        """
        return self._add(Action("drop", when), api, times, client_id, topic, group)

    def delay(
        self,
        api: Apis,
        *,
        ms: int,
        times: int | None = 1,
        when: When = "before",
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Delays the request, and all later requests on its connection, by `ms` milliseconds.

        With `when="after"` the request is executed at once and the response is delayed.
        """
        return self._add(Action("delay", when, delay_ms=ms), api, times, client_id, topic, group)

    def error(
        self,
        api: Apis,
        code: str | int,
        *,
        times: int | None = 1,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Does not execute the request, and answers it with Kafka's error `code` (name or number) for every requested
        item."""
        name = _error_name(code)
        from moldau.testing.error_responses import has_error_code

        for key in api_keys(api) or ():
            if not has_error_code(key):
                raise ValueError(f"a response to {api_name(key)} has no field for an error")
        return self._add(Action("error", error_name=name), api, times, client_id, topic, group)

    def disconnect(
        self,
        api: Apis,
        *,
        when: When = "before",
        times: int | None = 1,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Closes the connection on which the request comes. With `when="after"` the request is executed first, and the
        client gets no response, so it cannot know the outcome."""
        return self._add(Action("disconnect", when), api, times, client_id, topic, group)


class Script(_Steps):
    """Faults in a fixed order. Each waits until the one before has taken effect as often as requested."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self._waiting: deque[Fault] = deque()

    def skip(
        self,
        api: Apis,
        *,
        times: int = 1,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Lets `times` requests pass unchanged before the next step."""
        return self._add(Action("pass"), api, times, client_id, topic, group)

    @property
    def steps_left(self) -> int:
        """The number of unfinished steps, including the current one."""
        with self._faults._lock:
            return sum(not step.is_over for step in self._waiting)

    @property
    def is_finished(self) -> bool:
        """Whether every step has taken effect as often as requested."""
        return self.steps_left == 0

    def _arm(self, fault: Fault) -> None:
        with self._faults._lock:
            self._waiting.append(fault)
        self._faults._arm(self)

    def next_step(self) -> Fault | None:
        """The current step. The caller holds the lock of Faults."""
        while self._waiting and self._waiting[0].is_over:
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None

    def remove(self, fault: Fault) -> None:
        """Removes a step, for `Fault.cancel`. Ignores a fault that is not in the script."""
        if fault in self._waiting:
            self._waiting.remove(fault)


class Faults(_Steps):
    """All faults of one cluster. They survive a restart. Thread-safe.

    `api` is Kafka's name of a request ("Produce"), a list of names, or "*". `times=None` means until cleared.
    `client_id`, `topic` and `group` select requests; each may be a glob pattern ("orders-*"). If several faults select
    a request, the oldest one takes effect.
    """

    def __init__(self, now_ms: Callable[[], int], on_change: Callable[[], None]) -> None:
        """`on_change` is called after a fault is added and after the state of the disk changes."""
        super().__init__(self)
        self._lock = threading.Lock()
        self._active: list[Fault | Script] = []
        self._log: deque[Happened] = deque(maxlen=MAX_LOGGED)
        self._now_ms = now_ms
        self._on_change = on_change
        self._disk_fault: Fault | None = None

    # -- asking for more

    def script(self) -> Script:
        """Returns an empty list of steps that take effect in order: `script.skip(...)`, `script.drop(...)`, and so
        on."""
        return Script(self)

    def random(
        self,
        *,
        seed: int,
        rate: float,
        kinds: Sequence[Kind] = ("delay", "error", "disconnect"),
        api: Apis | None = None,
    ) -> Fault:
        """Applies random faults to a share `rate` (0 to 1) of the requests until cleared. With the same seed, the nth
        request of each API gets the same fault, independent of requests of other APIs.

        `api` None: produce, fetch, offset and group requests. Errors are transient ones; delays are up to 50 ms.
        """
        if not 0 <= rate <= 1:
            raise ValueError(f"rate={rate}: a rate is between 0 and 1")
        unknown = [kind for kind in kinds if kind not in ("drop", "delay", "error", "disconnect")]
        if unknown or not kinds:
            raise ValueError(f"kinds={kinds!r}: the kinds are drop, delay, error and disconnect")
        fault = RandomFaults(self, seed=seed, rate=rate, kinds=tuple(kinds), api=api)
        self._arm(fault)
        return fault

    def disk_full(self) -> Fault:
        """Every write of the broker finds the disk full until `clear`, `cancel`, or the end of the `with` block."""
        with self._lock:
            fault = self._disk_fault = self._disk_fault or Fault(self, Action("disk_full"))
        self._on_change()
        return fault

    def clear(self) -> None:
        """Ends all faults. `log` is kept. Connections that have gone silent stay silent."""
        with self._lock:
            self._active.clear()
            self._disk_fault = None
        self._on_change()

    # -- what happened

    @property
    def log(self) -> tuple[Happened, ...]:
        """Every fault that took effect, oldest first (the last 100,000)."""
        with self._lock:
            return tuple(self._log)

    def forget(self) -> None:
        """Empties `log`."""
        with self._lock:
            self._log.clear()

    def count(self, api: str | None = None, kind: Kind | None = None) -> int:
        """The number of faults that took effect, for this API ("*": any) and of this kind."""
        keys = None if api is None else api_keys(api)
        wanted = None if keys is None else {api_name(key) for key in keys}
        return sum(
            (wanted is None or happened.api in wanted) and (kind is None or happened.kind == kind)
            for happened in self.log
        )

    # -- for the injector

    @property
    def is_disk_full(self) -> bool:
        """Whether the disks of the cluster are full now."""
        return self._disk_fault is not None

    @property
    def are_any(self) -> bool:
        """Whether any fault or script of requests is active."""
        return bool(self._active)

    def take(self, facts: RequestFacts) -> Action | None:
        """Returns the action for this request, and logs it."""
        with self._lock:
            for entry in self._active:
                fault = entry.next_step() if isinstance(entry, Script) else entry
                action = None if fault is None else fault.take(facts)
                if fault is None or action is None:
                    continue
                topics = facts.topics if fault.wants_names else ()
                happened = Happened(
                    action.kind, api_name(facts.api_key), self._now_ms(), facts.client_id, action.detail, topics
                )
                fault.happened.append(happened)
                if action.kind != "pass":
                    self._log.append(happened)
                self._active = [kept for kept in self._active if isinstance(kept, Script) or not kept.is_over]
                return action
        return None

    def disk_refused(self, path: str) -> None:
        """Logs that a write found the disk full. Thread-safe."""
        with self._lock:
            fault = self._disk_fault
            if fault is not None:
                happened = Happened("disk_full", "", self._now_ms(), detail=path)
                fault.happened.append(happened)
                self._log.append(happened)

    def _arm(self, entry: Fault | Script) -> None:
        with self._lock:
            if entry not in self._active:
                self._active.append(entry)
        self._on_change()

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            for entry in self._active:
                if isinstance(entry, Script):
                    entry.remove(fault)
            if fault in self._active:
                self._active.remove(fault)
            if fault is self._disk_fault:
                self._disk_fault = None
        self._on_change()


def api_name(key: ApiKey) -> str:
    """Kafka's name of an API, such as "OffsetCommit"."""
    return API_VERSIONS[key].name if key in API_VERSIONS else key.name


def api_keys(api: Apis) -> tuple[ApiKey, ...] | None:
    """The APIs of these names in any notation (OffsetCommit, OFFSET_COMMIT); None for "*". Raises ValueError for an
    unknown name and for an empty list."""
    if api == ALL_APIS:
        return None
    names: Iterable[str] = (api,) if isinstance(api, str) else api
    if not names:
        raise ValueError(f"api={api!r} names no request; {ALL_APIS!r} are all")
    known = {key.name.replace("_", "").lower(): key for key in API_VERSIONS}
    return tuple(_one_key(known, name) for name in names)


def _one_key(known: dict[str, ApiKey], name: str) -> ApiKey:
    wanted = name.replace("_", "").lower()
    key = known.get(wanted)
    if key is None:
        hint = _hint(wanted, {written: api_name(one) for written, one in known.items()})
        hint = hint or "; docs/reference/compatibility.md lists the requests that are served"
        raise ValueError(f"the broker serves no request named {name!r}{hint}")
    return key


def _hint(wanted: str, known: Mapping[str, str], cutoff: float = 0.7) -> str:
    """`; did you mean ...?` with the value of the nearest key, if one is near enough."""
    near = nearest(wanted, known, cutoff=cutoff)
    return "" if near is None else f"; did you mean {known[near]}?"


def _check_selectors(keys: tuple[ApiKey, ...] | None, topic: str | None, group: str | None) -> None:
    """Raises ValueError for a selector that no request of these APIs can match, because the fault would never take
    effect."""
    if keys is None or (topic is None and group is None):
        return
    from moldau.testing.error_responses import can_name

    for word, value in (("topic", topic), ("group", group)):
        if value is not None and not any(can_name(API_VERSIONS[key].request, word) for key in keys):
            names = ", ".join(api_name(key) for key in keys)
            raise ValueError(f"{word}={value!r}: a request of {names} names no {word}")


def _error_name(code: str | int) -> str:
    """Kafka's name of an error. Raises ValueError, with a hint, for an unknown one."""
    if isinstance(code, int):
        if ERROR_NAMES.get(code, "NONE") != "NONE":
            return ERROR_NAMES[code]
        raise ValueError(f"Kafka has no error {code}: its errors are -1 and 1 to {max(ERROR_NAMES)}")
    if ERROR_CODES.get(code.upper(), 0):
        return code.upper()
    names = {_plain(name): name for name, number in ERROR_CODES.items() if number}
    hint = _hint(_plain(code), names, cutoff=0.6) or "; docs/reference/errors.md lists Kafka's errors"
    raise ValueError(f"Kafka has no error {code!r}{hint}")


def _plain(name: str) -> str:
    """The name in normal form: NOT_COORDINATOR, NotCoordinatorError and NotCoordinatorException are the same."""
    return "".join(filter(str.isalnum, name.upper())).removesuffix("ERROR").removesuffix("EXCEPTION")
