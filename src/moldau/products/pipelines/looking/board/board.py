"""Serves the pipeline board: the queries of a run in a browser, `/metrics` and `/status.json`."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from types import TracebackType

from moldau.products.pipelines.core.commit_metadata import BoardPlace
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.looking.board.pages import serve_board
from moldau.products.pipelines.looking.board.state import BoardState
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.service.logins.opened import Opening
from moldau.spark.queries.supervised_state import SupervisedState

LOOPBACK = "127.0.0.1"
_WITH_LOOPBACK = (LOOPBACK, "localhost", "0.0.0.0")


class Board:
    """Serves the board of a pipeline from its constructor to the end of its `with`."""

    def __init__(self, spec: PipelineSpec, port: int, host: str = LOOPBACK, opening: Opening | None = None) -> None:
        """`port`: 0 for any free port. `opening`: access to the board, by default for programs of this machine. Raises
        PipelineFailedError if the port is taken, and LoginFileError."""
        self.state = BoardState(spec)
        self._opening = Opening() if opening is None else opening
        self._host = host
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listening = socket.create_server((host, port), family=family)
        except (OSError, OverflowError) as error:
            # the text of such an OSError repeats the error number and the address
            reason = str(error) if not isinstance(error, OSError) or error.errno is None else os.strerror(error.errno)
            raise PipelineFailedError(f"{host}:{port} cannot serve the board: {reason}") from error
        self.port: int = self._listening.getsockname()[1]
        try:
            self._served = serve_board(self.state, self._listening, self._opening)
        except BaseException:
            self._listening.close()
            raise

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{self._opening.scheme}://{host}:{self.port}/"

    @property
    def place(self) -> BoardPlace | None:
        """None if the loopback does not lead to the board."""
        return BoardPlace(self.port, self._opening.scheme == "https") if self._host in _WITH_LOOPBACK else None

    def show(self, states: Sequence[SupervisedState]) -> None:
        self.state.note(states)

    def __enter__(self) -> Board:
        self._served.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._served.__exit__(kind, error, trace)
        self._listening.close()
