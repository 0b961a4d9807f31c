"""One instance of a service: it waits until it is chosen, runs the statements, and steps down when it is fenced."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import Change
from moldau.products.sql.catalog.journal import Journal
from moldau.products.sql.engine.answers import Answer, QueryStatus
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.serving.election import Candidacy
from moldau.products.sql.serving.statement_topic import Leader, StatementTopic, Term

BEAT_S = 0.2
"""Between two looks at queries and group."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Before an instance whose engine did not start stands again."""
END_WITHIN_S = 60.0

_log = logging.getLogger(__name__)


class RunningEngine(Protocol):
    """What a service needs of `engine.Engine`."""

    @property
    def catalog(self) -> Catalog: ...
    def execute(self, text: str, session: Session) -> Iterator[Answer]: ...
    def run(self, parsed: Parsed, session: Session) -> Answer: ...
    def statuses(self) -> list[QueryStatus]: ...
    def supervise(self) -> None: ...
    def close(self) -> None: ...


OpenEngine = Callable[[Journal, Sequence[Change]], RunningEngine]
"""Starts the queries of the kept changes."""


class SqlService:
    """From `start` to `close` a candidate; `engine` is there while it leads. Its properties may be read in any
    thread."""

    def __init__(
        self,
        access: ClusterAccess,
        service_id: str,
        address: str,
        open_engine: OpenEngine,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`address`: the URL at which the other instances and people reach this one. `say`: gets a line when it begins
        to lead, when it ends, and when it cannot. Raises TopicError, and ValueError as `check_service_id`."""
        self.service_id = service_id
        self._access = access.named("moldau-sql")
        self._topic = StatementTopic(self._access, service_id)
        self._own = Leader(str(uuid.uuid4()), address)
        self._open_engine = open_engine
        self._say = say
        self._term: Term | None = None
        self._engine: RunningEngine | None = None
        self._trouble: str | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sql {service_id}", daemon=True)

    @property
    def engine(self) -> RunningEngine | None:
        """None in an instance that does not lead."""
        return self._engine

    @property
    def cluster_id(self) -> str:
        """Of the Kafka cluster."""
        return self._topic.cluster_id

    @property
    def leader_address(self) -> str | None:
        """Of the newest leader, which may have ended. None if none is known but this instance."""
        leader = self._topic.leader
        return None if leader is None or leader.instance == self._own.instance else leader.address

    @property
    def trouble(self) -> str | None:
        """Why this instance could not lead when it was chosen."""
        return self._trouble

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stops the queries, and lets another instance lead. May be called twice."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(END_WITHIN_S)
        self._topic.close()

    # -- in the thread

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closing.is_set():
            self._trouble = None
            try:
                self._stand()
                pause_s = FIRST_PAUSE_S
            except Exception as error:
                if not isinstance(error, MoldauError):
                    _log.exception("the service %s", self.service_id)
                self._trouble = str(error)
                self._say(f"cannot run the statements of {self.service_id}, tries again in {pause_s:.0f} s: {error}")
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _stand(self) -> None:
        """Until a term is over, or the end. Raises the errors of the engine's start and of its supervision."""
        candidacy = Candidacy(self._access, self._topic.name)
        try:
            while not self._closing.is_set() and not self._is_deposed(candidacy):
                if candidacy.is_chosen and self._term is None:
                    self._take_over()
                if self._engine is not None:
                    self._engine.supervise()
                candidacy.poll(BEAT_S)
        finally:
            try:
                self._step_down()
            finally:
                candidacy.close()

    def _is_deposed(self, candidacy: Candidacy) -> bool:
        """Whether it led, and another instance leads or may lead."""
        term, leader = self._term, self._topic.leader
        if term is None:
            return False
        return term.is_over or not candidacy.is_chosen or (leader is not None and leader != self._own)

    def _take_over(self) -> None:
        self._term = self._topic.lead(self._own)
        self._engine = self._open_engine(self._term, self._term.kept)
        self._say(f"runs the statements of {self.service_id}: {len(self._engine.catalog.queries)} queries")

    def _step_down(self) -> None:
        term, engine = self._term, self._engine
        self._term = self._engine = None
        if term is not None:
            term.end()
        if engine is not None:
            engine.close()
            self._say(f"does not run the statements of {self.service_id} any more")
