"""The statements of a service in the topic `_moldau_sql_<service id>`.

Each statement is one transaction: a record for each item that it changes. The leader has the transactional id of the
topic; a new leader takes it, which fences the one before. Its first transaction names it (key `leader`). Once it reads
that back, it has all statements, and only it can add more.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec
from confluent_kafka import KafkaException

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.compacted_topic import CompactedTopic, TopicError, TopicWriter, is_fenced
from moldau.products.sql.catalog.deciding import Change
from moldau.products.sql.catalog.journal import read_change, stored_change
from moldau.products.sql.serving.service_ids import check_service_id

PREFIX = "_moldau_sql_"
MOST_ID_CHARACTERS = 100
"""Of a service id: names of groups, transactional ids and directories begin with it."""
MOST_BYTES = 900_000
"""Of a stored item; a topic takes 1 MiB by default."""

_LEADER_KEY = b"leader"


class NotLeadingError(MoldauError):
    """This instance does not run the statements any more."""


class Leader(msgspec.Struct, frozen=True):
    """An instance that leads or has led. `instance`: unlike that of any other process. `address`: of its HTTP."""

    instance: str
    address: str


class StatementTopic:
    """Follows the topic from the constructor's return to `close`."""

    def __init__(self, access: ClusterAccess, service_id: str) -> None:
        """Creates the topic if it is missing. Raises TopicError, and ValueError as `check_service_id`."""
        self._records: dict[bytes, bytes] = {}
        self._leader: Leader | None = None
        self._topic = CompactedTopic(access, PREFIX + check_service_id(service_id), self._apply, holds="statements")

    @property
    def name(self) -> str:
        return self._topic.topic

    @property
    def cluster_id(self) -> str:
        return self._topic.cluster_id

    @property
    def leader(self) -> Leader | None:
        """The newest that is known here; it may have ended."""
        return self._leader

    def close(self) -> None:
        self._topic.close()

    def lead(self, leader: Leader) -> Term:
        """Fences the leader before. Raises TopicError, and StoredChangeError if a statement cannot be read."""
        try:
            writer = TopicWriter(self._topic, self.name)
            offset = writer.commit([(_LEADER_KEY, msgspec.json.encode(leader))])
        except KafkaException as error:
            raise TopicError(f"the topic {self.name} cannot be written: {error.args[0].str()}") from error
        if not self._topic.has_read(offset):
            raise TopicError(f"the topic {self.name} was written, and is not read back yet")
        with self._topic.changed:
            records = list(self._records.items())
        return Term(writer, [read_change(key, value) for key, value in records])

    def _apply(self, key: bytes, value: bytes | None) -> None:
        if key == _LEADER_KEY:
            self._leader = _leader_of(value)
            return
        self._records.pop(key, None)  # a record that replaces another has the later place, as after compaction
        if value is not None:
            self._records[key] = value


class Term:
    """The journal of a leader, until another one fences it. Thread-safe."""

    def __init__(self, writer: TopicWriter, kept: Sequence[Change]) -> None:
        """`kept`: the changes of all earlier statements."""
        self.kept = kept
        self.is_over = False
        self._writer = writer
        self._writing = threading.Lock()

    def append(self, changes: Sequence[Change]) -> None:
        """Raises TopicError for a statement that is too long, and NotLeadingError. If the cluster did not say whether
        the changes are kept, the term is over too: the next leader reads from the topic what is true."""
        if not changes:
            return
        records = [stored_change(change) for change in changes]
        largest = max(len(key) + len(value or b"") for key, value in records)
        if largest > MOST_BYTES:
            raise TopicError(f"the statement is too long to be kept: {largest} bytes, and {MOST_BYTES} are the most")
        with self._writing:
            if self.is_over:
                raise NotLeadingError("this instance does not lead any more, and the statement was not run")
            try:
                self._writer.commit(records)
            except KafkaException as error:
                self.is_over = True
                if is_fenced(error):
                    raise NotLeadingError("another instance leads now, and the statement was not run") from error
                reason = error.args[0].str()
                raise NotLeadingError(f"the cluster did not say whether the statement is kept: {reason}") from error

    def end(self) -> None:
        """Waits for an append in progress; nothing is appended after it."""
        with self._writing:
            self.is_over = True


def _leader_of(value: bytes | None) -> Leader | None:
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=Leader)
    except ValueError:  # of a later version
        return None
